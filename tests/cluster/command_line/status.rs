//! `hustings status`: its output for hand-made Leases, and its exit code.

use std::{
    process::{Command, Output},
    time::Duration,
};

use hustings_client::api::LeaseCandidate;
use hustings_controlplane::{ControlPlane, Shared, shared};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::said;
use crate::replica::{hustings, until};

const GUIDE: &str = include_str!("../../../docs/guides/status.md");

#[tokio::test]
async fn one_lease_is_shown_in_full_with_the_reason_of_each_candidate() {
    let world = World::new("status-full").await;
    world.held("work").await;
    world.candidate("work", "a", "1.30.4", "Holder", "Holds the Lease.").await;
    world.candidate("work", "b", "1.31.0", "Standby", "The holder has an older emulation version.").await;
    let output = world.status(&["work"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let expected = format!(
        "\
Lease work in namespace {}: held
  holder     a
  term       3
  token      7
  key        -2
  since      2026-01-02T03:04:05Z
  expires    within 15 s
  reason     a was elected.

 RANK  CANDIDATE  BINARY  EMULATION  PRIORITY  STATE    REASON
 1     a          1.30.4  1.0        0         Holder   Holds the Lease.
 2     b          1.31.0  1.0        0         Standby  The holder has an older emulation version.
",
        world.namespace
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert!(output.stderr.is_empty(), "{}", said(&output));
}

#[tokio::test]
async fn every_state_of_a_lease_is_shown_and_the_exit_code_reports_a_missing_holder() {
    let world = World::new("status-states").await;
    let nobody = world.status(&[]);
    assert_eq!(nobody.status.code(), Some(0), "{}", said(&nobody));
    assert_eq!(String::from_utf8_lossy(&nobody.stdout), "no Lease here is enrolled or has candidates\n");

    world.held("held").await;
    // An empty variable names no context.
    let output = world.command(&[]).env("HUSTINGS_CONTEXT", "").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));

    world.lease("empty", json!({"hustings.io/session": "open"}), json!({"holderIdentity": ""})).await;
    world
        .lease(
            "granted",
            json!({"hustings.io/session": "open"}),
            json!({"holderIdentity": "a", "leaseDurationSeconds": 5}),
        )
        .await;
    world.lease("on-hold", json!({"hustings.io/hold": "pause"}), json!({"holderIdentity": ""})).await;
    world.candidate("not-there", "c", "1.0", "Unproven", "").await;
    let output = world.status(&["--output=json"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let states: Vec<_> =
        rows.iter().map(|row| (row["lease"].as_str().unwrap(), row["state"].as_str().unwrap())).collect();
    let expected =
        [("empty", "unheld"), ("granted", "granted"), ("held", "held"), ("not-there", "missing"), ("on-hold", "hold")];
    assert_eq!(states, expected);
    assert_eq!((&rows[2]["holder"], &rows[2]["token"], &rows[2]["term"]), (&json!("a"), &json!(7), &json!(3)));
    assert_eq!(rows[3]["candidates"][0]["name"], "c");
    for row in rows.iter().chain(rows[3]["candidates"].as_array().unwrap()) {
        for field in row.as_object().unwrap().keys() {
            assert!(GUIDE.contains(&format!("`{field}`")), "the guide does not mention {field}");
        }
    }
    for state in states.into_iter().map(|(_, state)| state) {
        assert!(GUIDE.contains(&format!("| `{state}` |")), "the guide does not mention {state}");
    }

    let output = world.status(&["--all-namespaces"]);
    assert_eq!(output.status.code(), Some(1));
    let table = String::from_utf8(output.stdout).unwrap();
    let columns: Vec<_> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(columns, ["NAMESPACE", "LEASE", "STATE", "HOLDER", "SINCE", "EXPIRES", "PREFERRED", "CANDIDATES"]);
    assert!(table.lines().filter(|line| line.contains(&world.namespace)).count() == 5, "{table}");
    assert!(!table.contains('\x1b'), "{table:?}");
}

#[tokio::test]
async fn every_output_format_shows_the_leases() {
    let world = World::new("status-formats").await;
    world.held("work").await;
    world.candidate("work", "a", "1.30.4", "Holder", "Holds the Lease.").await;
    let text = |arguments: &[&str]| {
        let output = world.status(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(text(&["-o", "name"]), "lease.coordination.k8s.io/work\n");
    let wide = text(&["-o", "wide"]);
    let columns: Vec<_> = wide.lines().next().unwrap().split_whitespace().skip(8).collect();
    assert_eq!(columns, ["TERM", "TOKEN", "STRATEGY", "ACTS", "REASON"]);
    assert!(wide.lines().nth(1).unwrap().trim_end().ends_with("3     7      -         -     a was elected."), "{wide}");
    let json: Value = serde_json::from_str(&text(&["-o", "json"])).unwrap();
    let yaml: Value = serde_yaml::from_str(&text(&["-o", "yaml"])).unwrap();
    assert_eq!(yaml, json);

    let output = world.status(&["--watch", "-o", "name"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("--output: name cannot show a change"), "{}", said(&output));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_terminal_gets_colors_unless_the_user_wants_none() {
    const TERMINAL: &str = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    let world = World::new("status-colors").await;
    world.held("work").await;
    let status = world.command(&[]);
    let on_terminal = |variables: &[(&str, &str)]| {
        let mut command = Command::new("python3");
        command.args(["-c", TERMINAL]).arg(status.get_program()).args(status.get_args());
        // Each of these overrides what the terminal says of itself.
        for name in ["CI", "CLICOLOR", "CLICOLOR_FORCE", "NO_COLOR"] {
            command.env_remove(name);
        }
        command.env("TERM", "xterm-256color").envs(variables.iter().copied());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let colored = on_terminal(&[]);
    assert!(colored.contains("held") && colored.contains('\u{1b}'), "{colored:?}");
    assert!(!on_terminal(&[("NO_COLOR", "1")]).contains('\u{1b}'));
    assert!(!on_terminal(&[("TERM", "dumb")]).contains('\u{1b}'));
}

#[tokio::test]
async fn without_the_right_to_watch_the_watch_ends_with_a_hint() {
    let world = World::new("status-watch-refused").await;
    world.held("work").await;
    let namespace = format!("--namespace={}", world.namespace);
    let account = format!("--serviceaccount={}:viewer", world.namespace);
    world.plane.create_service_account(&world.namespace, "viewer").await.unwrap();
    for arguments in [
        ["role", "viewer", "--verb=list", "--resource=leases,leasecandidates.hustings.io"],
        ["rolebinding", "viewer", "--role=viewer", &account],
    ] {
        let output = world.plane.kubectl(["create", &namespace].iter().chain(&arguments)).await.unwrap();
        assert!(output.status.success(), "{}", said(&output));
    }
    let viewer = world.plane.kubeconfig_for_service_account(&world.namespace, "viewer").await.unwrap();
    let mut command = hustings();
    command.args(["status", "--watch", &namespace, "--kubeconfig"]).arg(viewer);
    let output = tokio::process::Command::from(command).output().await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(
        said(&output).contains("work") && said(&output).contains("hint: grant the verb watch on"),
        "{}",
        said(&output)
    );
}

#[tokio::test]
async fn missing_lease_is_an_error_with_a_hint() {
    let world = World::new("status-unknown").await;
    let output = world.status(&["nothing"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let every = "`hustings status --all-namespaces` shows every Lease that is enrolled or has candidates";
    let expected = format!(
        "error: Lease \"nothing\" does not exist in namespace {} and has no candidates\nhint: {every}\n",
        world.namespace
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert!(output.stdout.is_empty());

    world.held("scheduler").await;
    world.held("web-controller").await;
    for (name, hint) in [("web-contorller", "did you mean \"web-controller\"?"), ("x", every)] {
        let output = world.status(&[name]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).ends_with(&format!("has no candidates\nhint: {hint}\n")), "{}", said(&output));
    }
}

#[tokio::test]
async fn heartbeat_of_a_node_is_shown_only_by_name() {
    let world = World::new("status-nodes").await;
    let node = world.namespace.clone();
    let world = World { namespace: "kube-node-lease".to_owned(), ..world };
    world.held(&node).await;
    world.candidate("stood-for", &node, "1.30.4", "Standby", "Nobody elects here.").await;
    let everywhere = world.status(&["--all-namespaces"]);
    assert!(matches!(everywhere.status.code(), Some(0 | 1)), "{}", said(&everywhere));
    assert!(!said(&everywhere).contains("kube-node-lease"), "{}", said(&everywhere));
    let named = world.status(&["--all-namespaces", &node]);
    assert_eq!(named.status.code(), Some(0), "{}", said(&named));
}

#[tokio::test]
async fn missing_permission_is_reported_with_the_rule_to_ask_for() {
    let world = World::new("status-refused").await;
    world.plane.create_service_account(&world.namespace, "nobody").await.unwrap();
    let nobody = world.plane.kubeconfig_for_service_account(&world.namespace, "nobody").await.unwrap();
    let expired = world.plane.folder().join("expired");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&nobody).unwrap()).unwrap();
    config["users"][0]["user"]["token"] = json!("unknown");
    std::fs::write(&expired, config.to_string()).unwrap();
    for (kubeconfig, cause, hint) in [
        (nobody, "(403)\n", "hint: bind the ClusterRole hustings-view"),
        (expired, "(401)\n", "hint: the API server rejected the credentials"),
    ] {
        let mut command = hustings();
        command.args(["status", "--namespace", &world.namespace, "--kubeconfig"]).arg(kubeconfig);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(cause) && said(&output).contains(hint), "{}", said(&output));
    }
}

#[tokio::test]
async fn watch_prints_only_changes_until_it_is_interrupted() {
    let world = World::new("status-watch").await;
    world.held("work").await;
    let mut command = world.command(&["work", "--watch", "--output=json"]);
    command.env("NO_COLOR", "1");
    let process = world.plane.spawn(&format!("{}-watch", world.namespace), command).unwrap();
    let log = || std::fs::read_to_string(process.log()).unwrap();
    let holders = || -> Vec<String> {
        let rows = log();
        let rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()[0]["holder"].clone());
        rows.map(|holder| holder.as_str().unwrap_or("nobody").to_owned()).collect()
    };
    until("it shows the Lease", log, async || (!holders().is_empty()).then_some(())).await;
    // Some reads later, the Lease expires sooner. That is not a change.
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.patch("work", json!({"spec": {"holderIdentity": "b"}})).await;
    until("it shows the change", log, async || (holders().len() > 1).then_some(())).await;
    assert_eq!(holders(), ["a", "b"]);
    let leases = Api::<Lease>::namespaced(world.plane.admin(), &world.namespace);
    leases.delete("work", &DeleteParams::default()).await.unwrap();
    until("it shows that the Lease is gone", log, async || (holders().len() > 2).then_some(())).await;
    assert_eq!(holders(), ["a", "b", "nobody"]);

    Command::new("kill").args(["-INT", &process.pid().to_string()]).status().unwrap();
    let ended = until("it ends", log, async || process.exit_status().unwrap()).await;
    assert_eq!(ended.code(), Some(0));
}

/// A namespace of a control plane with the CRD.
struct World {
    plane: Shared,
    namespace: String,
}

impl World {
    async fn new(name: &str) -> Self {
        static CRD: OnceCell<()> = OnceCell::const_new();
        let plane = shared().await.unwrap();
        CRD.get_or_init(|| install_crd(&plane)).await;
        let namespace = plane.create_namespace(name).await.unwrap();
        Self { plane, namespace }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = hustings();
        command.args(["status", "--namespace", &self.namespace]).args(arguments);
        command.arg("--kubeconfig").arg(self.plane.kubeconfig());
        command
    }

    fn status(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// A Lease that `a` holds.
    async fn held(&self, name: &str) {
        let annotations = json!({
            "hustings.io/session": "s/1/15", "hustings.io/token": "7", "hustings.io/key": "-2",
            "hustings.io/reason": "a was elected.",
        });
        let times = json!("2026-01-02T03:04:05.000000Z");
        let spec = json!({
            "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 3, "acquireTime": times,
            "renewTime": times,
        });
        self.lease(name, annotations, spec).await;
    }

    async fn lease(&self, name: &str, annotations: Value, spec: Value) {
        let labels = json!({"hustings.io/enrolled": "true"});
        let lease = json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec});
        let leases = Api::<Lease>::namespaced(self.plane.admin(), &self.namespace);
        leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    }

    async fn patch(&self, name: &str, patch: Value) {
        let leases = Api::<Lease>::namespaced(self.plane.admin(), &self.namespace);
        leases.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// A candidate with this status.
    async fn candidate(&self, lease: &str, name: &str, binary: &str, state: &str, message: &str) {
        let candidate = json!({
            "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate", "metadata": {"name": name},
            "spec": {"leaseName": lease, "binaryVersion": binary, "emulationVersion": "1.0"},
        });
        let candidates = Api::<LeaseCandidate>::namespaced(self.plane.admin(), &self.namespace);
        candidates.create(&PostParams::default(), &serde_json::from_value(candidate).unwrap()).await.unwrap();
        let status = Patch::Merge(json!({"status": {"state": state, "message": message}}));
        candidates.patch_status(name, &PatchParams::default(), &status).await.unwrap();
    }
}

/// The hint that every command prints.
async fn install_crd(plane: &ControlPlane) {
    // Other tests install it at the same time, and `kubectl apply` fails if it loses the race to create it.
    crate::controller::support::install_crd(&plane.admin()).await;
    let path = plane.folder().join("crds.yaml");
    let crds = hustings().arg("crds").output().unwrap().stdout;
    std::fs::write(&path, crds).unwrap();
    for arguments in [
        &["apply", "--filename", path.to_str().unwrap()][..],
        &["wait", "--for=condition=Established", "crd/leasecandidates.hustings.io", "--timeout=60s"],
    ] {
        let output = plane.kubectl(arguments).await.unwrap();
        assert!(output.status.success(), "{}", said(&output));
    }
}
