//! The chart accepts exactly those values with which its controllers start. The judge is the controller's own parser. It
//! reads the arguments and the environment that the same chart renders without its schema and its checks.

use std::{collections::BTreeMap, ffi::OsString, fs, path::Path};

use hustings::base::program::Program;
use hustings::cli::{command, controller_config};
use serde_json::Value;

use super::rendering::{documents, render, render_with};
use super::{HELMS, helm, repository, run_helm};

const SYSTEM: &str = "hustings-system";

/// Values as `--set-json` reads them.
const VALUES: [&str; 76] = [
    // The durations of the own Lease, at the edges of each rule.
    r#"leaderElection.leaseDuration="1s""#,
    r#"leaderElection={"leaseDuration":"1s","renewDeadline":"990ms","retryPeriod":"100ms"}"#,
    r#"leaderElection={"leaseDuration":"1s","renewDeadline":"991ms","retryPeriod":"100ms"}"#,
    r#"leaderElection.leaseDuration="0.25m""#,
    r#"leaderElection.leaseDuration="015s""#,
    r#"leaderElection.leaseDuration="15000ms""#,
    r#"leaderElection.leaseDuration="15500ms""#,
    r#"leaderElection.leaseDuration="15.5s""#,
    r#"leaderElection.leaseDuration="0s""#,
    r#"leaderElection.leaseDuration="1h""#,
    r#"leaderElection.leaseDuration="60m""#,
    r#"leaderElection.leaseDuration="59m60s""#,
    r#"leaderElection.leaseDuration="3601s""#,
    r#"leaderElection.leaseDuration="1h1s""#,
    r#"leaderElection.leaseDuration="999999h""#,
    r#"leaderElection.leaseDuration="1m1h""#,
    r#"leaderElection.leaseDuration="1s1s""#,
    r#"leaderElection.leaseDuration="1.5m10s""#,
    r#"leaderElection.leaseDuration="15""#,
    r#"leaderElection.leaseDuration="-15s""#,
    r#"leaderElection.renewDeadline="14.85s""#,
    r#"leaderElection.renewDeadline="14.850000001s""#,
    r#"leaderElection.renewDeadline="15s""#,
    r#"leaderElection.renewDeadline="2.4s""#,
    r#"leaderElection.renewDeadline="2400.000001ms""#,
    r#"leaderElection.renewDeadline="0s""#,
    r#"leaderElection.renewDeadline="99999h""#,
    r#"leaderElection.retryPeriod="0s""#,
    r#"leaderElection.retryPeriod="8333ms""#,
    r#"leaderElection.retryPeriod="8334ms""#,
    r#"leaderElection.retryPeriod="999999999s""#,
    // The jitter has whole microseconds: 1.0009 ms may become 1.2009 ms.
    r#"leaderElection={"renewDeadline":"1.2009ms","retryPeriod":"1.0009ms"}"#,
    r#"leaderElection={"renewDeadline":"1.200901ms","retryPeriod":"1.0009ms"}"#,
    r#"leaderElection={"renewDeadline":"0.000002ms","retryPeriod":"0.000001ms"}"#,
    r#"leaderElection.leaseName="a..b""#,
    r#"leaderElection.leaseName="a.b-c.0""#,
    r#"leaderElection.namespace="other""#,
    r#"leaderElection.namespace="a.b""#,
    r#"settling="0s""#,
    r#"settling="10s""#,
    r#"settling="10.000000001s""#,
    r#"settling="1m""#,
    r#"candidateValidity="5s""#,
    r#"candidateValidity="4999.999999ms""#,
    r#"candidateValidity="1h30m5s7ms""#,
    r#"candidateValidity="999999h9999999m999999999s999999999999.999999ms""#,
    r#"watchNamespaces=["a","b-0"]"#,
    r#"watchNamespaces=["a","kube-node-lease"]"#,
    r#"watchNamespaces=["A"]"#,
    r#"watchNamespaces=["a.b"]"#,
    "native.standIn=true",
    "native.standIn=true,native.enabled=true",
    "evidence.nodes=true",
    "evidence.nodes=true,evidence.pods=true",
    r#"evidence.podSelector="app""#,
    r#"evidence.podSelector="app",evidence.pods=true"#,
    r#"assist.leases=[{"lease":"shop/web"}]"#,
    r#"assist.leases=[{"lease":"shop/web"},{"lease":"a/b.c","container":"app"}],evidence.pods=true"#,
    r#"assist.leases=[{"lease":"shop/web","podPrefix":"p-","podNamespace":"n"}],evidence.pods=true"#,
    r#"assist.leases=[{"lease":"shop/web","container":"A"}],evidence.pods=true"#,
    r#"assist.leases=[{"lease":"shop/web"}],evidence.pods=true,watchNamespaces=["a"]"#,
    r#"assist.leases=[{"lease":"a/web","podNamespace":"b"}],evidence.pods=true,watchNamespaces=["a"]"#,
    r#"assist.leases=[{"lease":"a/web","podNamespace":"b"}],evidence.pods=true,watchNamespaces=["a","b"]"#,
    r#"assist.leases=[{"lease":"kube-node-lease/web"}],evidence.pods=true"#,
    r#"log.level="off""#,
    r#"log.level="info,hustings=debug,kube_client::client""#,
    r#"log.level="hustings[election]=trace""#,
    r#"log.level="hustings=loud""#,
    r#"log.level="loud""#,
    r#"log.level="é=info""#,
    r#"log.level="""#,
    // Flags and variables of their own.
    r#"extraArgs=["--metrics-lease-limit=50","--context=a","--leader-elect=on"]"#,
    r#"extraArgs=["--context=a","--context=a"]"#,
    r#"extraEnv=[{"name":"HUSTINGS_METRICS_LEASE_LIMIT","value":" 50"},{"name":"HUSTINGS_LEADER_ELECT","value":"Yes"}]"#,
    r#"extraEnv=[{"name":"HUSTINGS_METRICS_LEASE_LIMIT","value":"many"}]"#,
    r#"extraEnv=[{"name":"HUSTINGS_LEADER_ELECT","value":""}]"#,
];

#[test]
fn chart_accepts_the_values_with_which_the_controller_starts_and_no_others() {
    let bare = without_checks();
    let mut accepted = 0;
    for values in VALUES {
        let template = ["template", "hustings", bare.to_str().unwrap(), "--namespace", SYSTEM, "--set-json", values];
        let rendered = helm(&template);
        assert!(rendered.status.success(), "{values}: {}", String::from_utf8_lossy(&rendered.stderr));
        let (arguments, variables) = container(&String::from_utf8(rendered.stdout).unwrap());
        let config = controller_config(arguments, &variables);
        let said = refusal(&["--set-json", values]);
        assert_eq!(said.is_none(), config.is_ok(), "{values}: the chart: {said:?}; the controller: {:?}", config.err());
        accepted += usize::from(said.is_none());
    }
    // Neither side accepts everything.
    assert!(accepted > VALUES.len() / 4 && accepted < VALUES.len() * 3 / 4, "{accepted}");
    fs::remove_dir_all(bare).unwrap();
}

/// The flags that no value of the chart sets.
const FREE: [&str; 4] = ["kubeconfig", "context", "leader-elect", "metrics-lease-limit"];

/// Each flag of the controller with each kind of value, beside the flags that the chart sets.
#[test]
fn chart_refuses_flags_that_a_value_sets_and_knows_the_form_of_all_others() {
    let mut whole = command(Program::Hustings);
    whole.build();
    let controller = whole.find_subcommand("controller").unwrap();
    let flags: Vec<_> = controller.get_arguments().filter_map(|argument| argument.get_long()).collect();
    assert!(FREE.iter().all(|flag| flags.contains(flag)), "{flags:?}");
    let (arguments, variables) = container(&render(&[]));
    for flag in flags.iter().chain(&["no-such-flag"]) {
        // These end the controller, although they are no mistake.
        if ["help", "version"].contains(flag) {
            continue;
        }
        if flags.contains(flag) && !FREE.contains(flag) {
            let variable = format!("HUSTINGS_{}", flag.to_uppercase().replace('-', "_"));
            for value in [format!(r#"extraArgs=["--{flag}"]"#), format!(r#"extraEnv=[{{"name":"{variable}"}}]"#)] {
                let said = refusal(&["--set-json", &value]).unwrap_or_default();
                assert!(said.contains("set the value of the chart instead"), "{value}: {said}");
            }
            continue;
        }
        for value in ["", "=true", "=7", "=a", "=No", "="] {
            let flag = format!("--{flag}{value}");
            let arguments = arguments.iter().cloned().chain([OsString::from(&flag)]).collect();
            let config = controller_config(arguments, &variables);
            // Without the own Lease there may be one controller.
            let said = refusal(&["--set", "replicas=1", "--set-json", &format!("extraArgs=[{flag:?}]")]);
            assert_eq!(
                said.is_none(),
                config.is_ok(),
                "{flag}: the chart: {said:?}; the controller: {:?}",
                config.err()
            );
        }
    }
}

/// Forms that people rarely write, and values that suit no Pod.
#[test]
fn chart_rejects_more_than_the_controller_where_it_is_simpler_or_where_the_pod_would_fail() {
    for (values, reason) in [
        (r#"settling="1 s""#, "at '/settling': '1 s' does not match pattern"),
        (r#"settling="PT1S""#, "at '/settling': 'PT1S' does not match pattern"),
        (r#"candidateValidity="1000000h""#, "at '/candidateValidity'"),
        (r#"extraArgs=["--leader-elect=false"]"#, "every controller elects: set replicas to 1"),
        (r#"extraEnv=[{"name":"HUSTINGS_LEADER_ELECT","value":"off"}]"#, "every controller elects: set replicas to 1"),
        (r#"extraArgs=["--"]"#, "-- is not a flag of `hustings controller`"),
        (r#"extraArgs=["--help"]"#, "--help is not a flag of `hustings controller`"),
        (r#"extraEnv=[{"name":"HUSTINGS_OTHER"}]"#, "HUSTINGS_OTHER is not a variable of `hustings controller`"),
        (r#"extraArgs=["-nother"]"#, "the chart itself sets -nother: set the value of the chart instead"),
        (r#"extraArgs=["--settling=2s"]"#, "the chart itself sets --settling=2s: set the value of the chart instead"),
        (
            r#"extraEnv=[{"name":"HUSTINGS_SETTLING","value":"2s"}]"#,
            "the chart itself sets --settling, the flag of HUSTINGS_SETTLING: set the value of the chart instead",
        ),
        (
            r#"leaderElection.namespace="kube-node-lease""#,
            "leaderElection.namespace: kube-node-lease holds the heartbeats",
        ),
        (r#"adminHost="127.0.0.1""#, "adminHost: needs hostNetwork"),
        (r#"dnsPolicy="ClusterFirstWithHostNet""#, "dnsPolicy: ClusterFirstWithHostNet needs hostNetwork"),
        ("hostNetwork=true,adminPort=10257", "adminPort: 10257 is a port of Kubernetes"),
        ("hostNetwork=true,networkPolicy.enabled=true", "does not apply to Pods with hostNetwork"),
        ("deployment.enabled=false", "deployment.enabled: name the controllers in extraSubjects"),
        // Not of the controller, but of the operator's CRD.
        (r#"podMonitor.interval="1.5s""#, "at '/podMonitor/interval'"),
        (r#"podMonitor.interval="""#, "at '/podMonitor/interval'"),
    ] {
        for helm in HELMS {
            let output = run_helm(helm, &["template", "hustings", "charts/hustings", "--set-json", values]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains(reason), "{helm:?}, {values}: {said}");
        }
    }
}

#[test]
fn chart_names_every_mistake_at_once() {
    let values = r#"settling="11s",candidateValidity="1s",native.standIn=true,extraArgs=["--other"]"#;
    let said = refusal(&["--set-json", values]).unwrap();
    for value in ["settling", "candidateValidity", "native.standIn", "extraArgs"] {
        assert!(said.contains(&format!("\n  {value}: ")), "{value}: {said}");
    }
}

/// The chart's arithmetic is that of the controller, to the nanosecond.
#[test]
fn chart_reads_durations_as_the_controller_does() {
    let mut durations: Vec<String> =
        ["0s", "007s", "1h2m3s4ms", "0.000000001h", "0.999999999m", "1.000001ms", "999999999.999999999s"]
            .map(str::to_owned)
            .into();
    for number in ["0", "1", "08", "59", "61", "1.5", "0.1", "12.345678"] {
        durations.extend(["h", "m", "s"].map(|unit| format!("{number}{unit}")));
        durations.push(format!("1m{}ms", number.get(..6).unwrap_or(number)));
    }
    let entries = durations
        .iter()
        .map(|text| format!(r#"  "{text}": {{{{ include "hustings.nanoseconds" "{text}" | quote }}}}"#));
    let object = format!("kind: Durations\nmetadata: {{name: a}}\ndata:\n{}", entries.collect::<Vec<_>>().join("\n"));
    let objects = serde_json::to_string(&[object]).unwrap();
    for helm in HELMS {
        let rendered = documents(&render_with(helm, SYSTEM, &["--set-json", &format!("extraObjects={objects}")]));
        let read = rendered.into_iter().find(|object| object["kind"] == "Durations").unwrap();
        for text in &durations {
            let nanoseconds = hustings::base::duration::parse(text).unwrap().as_nanos().to_string();
            assert_eq!(read["data"][text], nanoseconds, "{text}");
        }
    }
}

/// A copy of the chart that accepts everything.
fn without_checks() -> std::path::PathBuf {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chart-without-checks-{}", std::process::id()));
    let _ = fs::remove_dir_all(&copy);
    copy_folder(&repository("charts/hustings"), &copy);
    for file in ["values.schema.json", "templates/checks.yaml"] {
        fs::remove_file(copy.join(file)).unwrap();
    }
    copy
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The arguments and the environment of the rendered controller.
fn container(rendered: &str) -> (Vec<OsString>, BTreeMap<String, String>) {
    let deployment = documents(rendered).into_iter().find(|object| object["kind"] == "Deployment").unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let variables = container["env"].as_array().unwrap().iter();
    let variables = variables.map(|variable| (text(&variable["name"]), text(&variable["value"]))).collect();
    let arguments = container["args"].as_array().unwrap().iter();
    (arguments.map(|argument| text(argument).replace("$(POD_NAMESPACE)", SYSTEM).into()).collect(), variables)
}

/// Helm's error; `None` if the chart accepts the values.
fn refusal(values: &[&str]) -> Option<String> {
    let output = helm(&[&["template", "hustings", "charts/hustings"], values].concat());
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}
