//! Tests that need no cluster. `tests/testdata/commands` has the mistakes on a command line.

use std::{fs, io::Read as _, net::TcpListener, path::Path, process::Stdio, time::Duration};

use tokio::process::Command;

use super::said;
use crate::replica::hustings;

/// A kubeconfig file with a server that does not exist: no process listens on this port.
const NOBODY: &str = r#"{"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "current-context": "c",
    "users": [{"name": "u", "user": {"token": "t"}}]}"#;

#[test]
fn server_on_which_nothing_listens_is_named_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, NOBODY).unwrap();
    let output = hustings().arg("status").arg("--kubeconfig").arg(&kubeconfig).output().unwrap();
    let stderr = said(&output);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let hint = "hint: nothing listens at https://127.0.0.1:1: start the API server, or correct `server` of the cluster";
    assert_eq!(stderr.lines().last(), Some(hint), "{stderr}");
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
