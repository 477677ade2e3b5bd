//! Tests that need no cluster: help, and mistakes.

use std::{fs, io::Read as _, net::TcpListener, path::Path, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use super::said;
use crate::replica::hustings;

/// A kubeconfig file with a server that does not exist: no process listens on this port.
const NOBODY: &str = r#"{"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "current-context": "c",
    "users": [{"name": "u", "user": {"token": "t"}}]}"#;

#[test]
fn help_names_every_command_and_flag_and_where_it_comes_from() {
    let help = |arguments: &[&str]| {
        let output = hustings().args(arguments).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let all = help(&["--help"]);
    for command in ["controller", "campaign", "run", "sidecar", "crds", "copy-binary", "status", "check"] {
        assert!(all.contains(command), "{all}");
    }
    let campaign = help(&["campaign", "--help"]);
    for text in ["--lease <NAME>", "--identity", "--emulation-version", "--direct", "--output", "HUSTINGS_LEASE"] {
        assert!(campaign.contains(text), "{text} is not in\n{campaign}");
    }
    for command in ["campaign", "run", "sidecar"] {
        let help = help(&[command, "--help"]);
        assert!(help.contains("Exit codes:\n") && help.contains("\n  2    the command line is invalid"), "{help}");
    }
    let status = help(&["status", "--help"]);
    for text in ["[LEASE]", "--all-namespaces", "--watch", "exit code 1", "--kubeconfig"] {
        assert!(status.contains(text), "{text} is not in\n{status}");
    }
}

#[test]
fn every_wrong_flag_of_campaign_is_named_at_once_with_exit_code_2() {
    let arguments = [
        "campaign",
        "--lease=My_Lease",
        "--namespace=B",
        "--binary-version=one",
        "--emulation-version=two",
        "--strategy=Mine",
        "--priority=-1",
        "--lease-duration=1500ms",
        "--output=xml",
        "--kubeconfig=/nowhere",
    ];
    let output = hustings().args(arguments).env("HUSTINGS_RENEW_DEADLINE", "soon").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(output.stdout.is_empty());
    let stderr = String::from_utf8(output.stderr).unwrap();
    for flag in arguments[1..9].iter().map(|flag| flag.split('=').next().unwrap()).chain(["--renew-deadline"]) {
        assert!(stderr.contains(&format!("\n  {flag}: ")), "{flag} is not named in\n{stderr}");
    }
    assert!(stderr.lines().last().unwrap().starts_with("hint: "), "{stderr}");
}

#[test]
fn conflicting_flags_of_campaign_are_rejected() {
    for (flags, refused) in [
        (
            &["--binary-version=1.2", "--emulation-version=1.3"][..],
            "--emulation-version: 1.3.0 is higher than the binary version 1.2.0",
        ),
        (&[], "--binary-version: is required unless --direct is given"),
        (&["--binary-version=1.2", "--identity=A"], "--identity: \"A\" is not a valid DNS subdomain"),
        (&["--direct", "--priority=1"], "--priority: describes a candidate, and --direct has none"),
        (&["--direct", "--identity=a\nb"], "--identity: \"a\\nb\" contains a control character"),
        (
            &["--leader-elect=false", "--emulation-version=1.2"],
            "--binary-version: is required unless --direct is given",
        ),
        (&["--direct", "--key=high"], "--key: \"high\" is not a whole number"),
        (&["--binary-version=1.2", "--key=1"], "--key: applies only with --direct: use --priority instead"),
        (
            &["--binary-version=1.2", "--priority", "-5"],
            "--priority: \"-5\" is not a whole number from 0 to 2147483647",
        ),
        (&["--direct", "--renew-deadline=15s"], "--renew-deadline: the renew deadline of 15s is above 14.85s"),
        (
            &["--direct", "--retry-period=8.4s"],
            "--renew-deadline: the renew deadline of 10s is not above 10.08s, which is the retry period",
        ),
        (&["--direct", "--lease-duration=15.5s"], "--lease-duration: \"15.5s\" is not a whole number of seconds"),
    ] {
        let output = hustings().args(["campaign", "--lease=l"]).args(flags).output().unwrap();
        let stderr = said(&output);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(refused), "{refused:?} is not in\n{stderr}");
    }
}

#[test]
fn switches_accept_the_same_words_in_the_environment_as_their_flags() {
    for (value, refused) in [
        ("yes", "--binary-version: describes a candidate, and --direct has none"),
        ("0", "--key: applies only with --direct: use --priority instead"),
    ] {
        let flags = ["campaign", "--lease=l", "--binary-version=1.2", "--key=1"];
        let output = hustings().args(flags).env("HUSTINGS_DIRECT", value).output().unwrap();
        let stderr = said(&output);
        assert!(stderr.contains(refused), "{refused:?} is not in\n{stderr}");
    }
}

#[test]
fn unreachable_cluster_is_reported_with_a_hint_and_not_as_a_lease_without_a_holder() {
    for (arguments, code) in [
        (&["campaign", "--lease=l", "--identity=a", "--direct"][..], 1),
        (&["status"], 2),
        (&["status", "l", "--watch"], 2),
    ] {
        let output = hustings()
            .args(arguments)
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env("HOME", "/nowhere")
            .output()
            .unwrap();
        let stderr = said(&output);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(output.stdout.is_empty());
        assert!(stderr.contains("error: cannot load the cluster configuration"), "{stderr}");
        assert!(stderr.lines().last().unwrap().starts_with("hint: pass --kubeconfig, set KUBECONFIG"), "{stderr}");
    }
}

#[test]
fn server_that_does_not_answer_is_named_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, NOBODY).unwrap();
    let output = hustings().arg("status").arg("--kubeconfig").arg(&kubeconfig).output().unwrap();
    let stderr = said(&output);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let hint = "hint: nothing listens at https://127.0.0.1:1: start the API server, or correct `server` of the cluster";
    assert_eq!(stderr.lines().last(), Some(hint), "{stderr}");

    // A server that accepts the connection and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}/", silent.local_addr().unwrap());
    fs::write(&kubeconfig, NOBODY.replace("https://127.0.0.1:1", &server)).unwrap();
    let output = hustings().arg("status").arg("--kubeconfig").arg(&kubeconfig).output().unwrap();
    let stderr = format!(
        "error: cannot list LeaseCandidates\n  caused by: no answer within 15 s\n\
         hint: check that {server} is reachable from here, or choose another --kubeconfig or --context\n"
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), stderr);
    assert_eq!(output.status.code(), Some(2));

    // As when the cloud provider's program is not installed.
    let user = r#"{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-program",
        "interactiveMode": "Never"}}"#;
    fs::write(&kubeconfig, NOBODY.replace(r#"{"token": "t"}"#, user)).unwrap();
    let output = hustings().arg("status").arg("--kubeconfig").arg(&kubeconfig).output().unwrap();
    let stderr = said(&output);
    assert!(
        stderr.lines().last().unwrap().starts_with("hint: install the program that exec.command of the user names"),
        "{stderr}"
    );
}

#[tokio::test]
async fn every_command_that_reads_ends_when_the_server_never_answers() {
    let folder = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}/", silent.local_addr().unwrap());
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, NOBODY.replace("https://127.0.0.1:1", &server)).unwrap();
    let ends = [
        &["status"][..],
        &["status", "l", "--watch"],
        &["explain", "l"],
        &["history", "l"],
        &["rollout", "l", "--to", "1.36.0"],
        &["check"],
        &["pause", "l"],
        &["resume", "l"],
        &["transfer", "l", "--wait"],
        &["pin", "l", "--to", "a", "--for", "1h"],
        &["unpin", "l"],
        &["exclude", "a", "--for", "1h"],
        &["exclude", "--node", "n", "--for", "1h"],
        &["include", "a"],
    ]
    .map(|arguments| {
        let mut command = Command::from(hustings());
        command.args(arguments).arg("--kubeconfig").arg(&kubeconfig).kill_on_drop(true);
        let end = async move { tokio::time::timeout(Duration::from_mins(3), command.output()).await };
        async move { (arguments, end.await.expect("it does not end").unwrap()) }
    });
    for (arguments, output) in futures::future::join_all(ends).await {
        let said = said(&output);
        assert!(output.status.code().is_some_and(|code| code != 0), "{arguments:?}: {said}");
        assert!(said.contains(&format!("hint: check that {server} is reachable from here")), "{arguments:?}: {said}");
    }
}

#[tokio::test]
async fn every_command_that_holds_a_lease_accepts_istios_times_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, NOBODY).unwrap();
    let own = ["--leader-elect-lease-duration=30s", "--leader-elect-renew-deadline=15s"];
    let candidacy = ["--lease=l", "--direct", "--identity=a", "--lease-duration=30s", "--renew-deadline=15s"];
    for (command, flags, retry_period, rest) in [
        ("campaign", &candidacy[..], "--retry-period=7.5s", &[][..]),
        ("run", &candidacy, "--retry-period=7.5s", &["--", "true"]),
        ("sidecar", &candidacy, "--retry-period=7.5s", &["--listen=127.0.0.1:0", "--admin-address=127.0.0.1:0"]),
        ("controller", &own, "--leader-elect-retry-period=7.5s", &["--admin-address=127.0.0.1:0"]),
    ] {
        let mut hustings = Command::from(hustings());
        hustings.arg(command).arg("--namespace=n").arg("--kubeconfig").arg(&kubeconfig).args(flags).arg(retry_period);
        hustings.args(rest).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = hustings.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut stderr = Vec::new();
        let warns = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                stderr.push(line);
                if stderr
                    .last()
                    .is_some_and(|line| line.contains("WARN") && line.contains("one lost renewal may cost the term"))
                {
                    return true;
                }
            }
            false
        };
        let warns = tokio::time::timeout(Duration::from_mins(1), warns).await.unwrap_or(false);
        assert!(warns, "{command} does not warn:\n{}", stderr.join("\n"));
    }
}

#[test]
fn crds_prints_the_committed_file_and_a_reader_may_close_the_pipe() {
    let committed =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("crds/leasecandidates.yaml")).unwrap();
    let output = hustings().arg("crds").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), committed);

    let mut child = hustings().arg("crds").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(child.wait().unwrap().success() && stderr.is_empty(), "{stderr}");
}
