//! A shell script as the credential program. It appends a line to a log when it starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kube::config::ExecInteractiveMode;

use super::*;

const API_VERSION: &str = "client.authentication.k8s.io/v1";

/// A text that no message may contain.
const MARKER: &str = "m4rk3r";

struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    /// A program with this body.
    fn new(body: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("plugin.sh");
        let log = folder.path().join("log");
        let text = format!("#!/bin/sh\ncd {}\necho started >> {}\n{body}\n", folder.path().display(), log.display());
        fs::write(&source, text).unwrap();
        // Another test's child may have inherited a file that this process writes, and a file open for writing cannot run.
        let copied =
            Command::new("install").args(["-m", "755"]).args([&source, &folder.path().join("plugin")]).status();
        assert!(copied.unwrap().success());
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn plugin(&self) -> Arc<Plugin> {
        plugin(&self.path("plugin"))
    }

    fn starts(&self) -> usize {
        fs::read_to_string(self.path("log")).unwrap_or_default().lines().count()
    }
}

fn plugin(command: &Path) -> Arc<Plugin> {
    let exec = ExecConfig {
        api_version: Some(API_VERSION.to_owned()),
        command: Some(command.to_str().unwrap().to_owned()),
        args: Some(vec![MARKER.to_owned()]),
        env: Some(vec![
            [("name", "SECRET"), ("value", MARKER)].map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        ]),
        install_hint: Some("brew install it\x1b[2J".to_owned()),
        interactive_mode: Some(ExecInteractiveMode::Never),
        ..ExecConfig::default()
    };
    Plugin::of(&AuthInfo { exec: Some(exec), ..AuthInfo::default() }).unwrap()
}

/// A command that prints a credential.
fn prints(status: &str) -> String {
    format!(r#"printf '%s' '{{"apiVersion":"{API_VERSION}","kind":"ExecCredential","status":{status}}}'"#)
}

fn token(issued: &Issued) -> &str {
    issued.token.as_ref().unwrap().to_str().unwrap()
}

/// Makes the current credential one that must be refreshed, and is valid for `valid`.
fn replace_current(plugin: &Plugin, valid: SignedDuration) {
    let now = Timestamp::now();
    let former = HeaderValue::from_static("Bearer former");
    let issued = Issued { ends: Some((now - MARGIN, now + valid)), ..Issued::new(Some(former), None, None) };
    plugin.state().current = Some(Arc::new(issued));
}

async fn until(mut is_true: impl FnMut() -> bool) {
    let limit = tokio::time::timeout(Duration::from_secs(30), async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    limit.await.expect("the condition becomes true");
}

#[tokio::test]
async fn a_slow_program_delays_no_request_while_the_former_credential_is_valid() {
    let body = format!("while [ ! -e go ]; do sleep 0.02; done\n{}", prints(r#"{"token":"new"}"#));
    let fixture = Fixture::new(&body);
    let plugin = fixture.plugin();
    replace_current(&plugin, SignedDuration::from_secs(60));
    for _ in 0..5 {
        assert_eq!(token(&plugin.current().await.ok().unwrap()), "Bearer former");
    }
    until(|| fixture.starts() == 1).await;
    fs::write(fixture.path("go"), "").unwrap();
    until(|| plugin.state().run.is_none()).await;
    assert_eq!(token(&plugin.current().await.ok().unwrap()), "Bearer new");
    assert_eq!(fixture.starts(), 1, "one run at a time, and none without need");
}

#[tokio::test]
async fn a_result_outlives_the_requests_that_gave_up() {
    let body = format!("while [ ! -e go ]; do sleep 0.02; done\n{}", prints(r#"{"token":"new"}"#));
    let fixture = Fixture::new(&body);
    let plugin = fixture.plugin();
    replace_current(&plugin, SignedDuration::from_secs(-1));
    for _ in 0..3 {
        let given_up = tokio::time::timeout(Duration::from_millis(50), plugin.current()).await;
        assert!(given_up.is_err(), "an expired credential is not sent");
    }
    fs::write(fixture.path("go"), "").unwrap();
    assert_eq!(token(&plugin.current().await.ok().unwrap()), "Bearer new");
    assert_eq!(fixture.starts(), 1);
}

#[tokio::test]
async fn a_rejected_credential_is_replaced_once() {
    let fixture = Fixture::new(&prints(r#"{"token":"new"}"#));
    let plugin = fixture.plugin();
    let first = plugin.current().await.ok().unwrap();
    plugin.reject(&first);
    assert!(Arc::ptr_eq(&first, &plugin.current().await.ok().unwrap()), "a new one that is rejected stays for a while");
    let aged = Issued { at: Instant::now() - PAUSE, ..Issued::new(first.token.clone(), None, None) };
    let aged = Arc::new(aged);
    plugin.state().current = Some(Arc::clone(&aged));
    for _ in 0..3 {
        plugin.reject(&aged);
    }
    assert!(!Arc::ptr_eq(&aged, &plugin.current().await.ok().unwrap()));
    plugin.reject(&aged);
    assert_eq!(fixture.starts(), 2);
}

#[tokio::test]
async fn all_clients_of_a_process_share_the_credential_of_a_program() {
    let fixture = Fixture::new(&prints(r#"{"token":"new"}"#));
    let (first, second) = (fixture.plugin(), fixture.plugin());
    assert!(first.current().await.is_ok() && second.current().await.is_ok());
    assert_eq!(fixture.starts(), 1);
}

#[tokio::test]
async fn each_failure_is_reported_without_what_the_program_knows() {
    let failing = format!("echo {MARKER}; echo {MARKER} >&2; exit 3");
    for (body, expected) in [
        (failing, "failed with exit status: 3: run it yourself to see why"),
        ("kill -9 $$".to_owned(), "failed with signal: 9 (SIGKILL): run it yourself to see why"),
        (format!("echo {MARKER}"), "did not print an ExecCredential"),
        ("head -c 1100000 /dev/zero".to_owned(), "printed more than 1 MiB"),
        ("true".to_owned(), "did not print an ExecCredential"),
        (format!("echo '{{\"kind\": \"{MARKER}\"}}'"), "did not print an ExecCredential"),
        (
            r#"echo '{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"m4rk3r"}}'"#
                .to_owned(),
            "answered in another version of the protocol: correct `exec.apiVersion`",
        ),
        (prints("null"), "printed an ExecCredential without a status"),
        (prints("{}"), "printed neither a token nor a certificate"),
        (prints(r#"{"token":"m4rk3r\n"}"#), "printed a token with a line end or another control character"),
        (prints(r#"{"clientCertificateData":"m4rk3r"}"#), "printed only one of certificate and key"),
        (prints(r#"{"token":"m4rk3r","expirationTimestamp":"m4rk3r"}"#), "printed an expirationTimestamp that is no time"),
    ] {
        let fixture = Fixture::new(&body);
        let error = fixture.plugin().current().await.err().unwrap();
        let expected = format!("the credential program {:?} {expected}", fixture.path("plugin"));
        assert_eq!(error.to_string(), expected);
        assert!(!format!("{error:?}").contains(MARKER), "{error:?}");
    }
    let missing = plugin(Path::new("/no/such/program")).current().await.err().unwrap();
    let expected = "the credential program \"/no/such/program\" is not installed: brew install it[2J";
    assert_eq!(missing.to_string(), expected);
}

#[tokio::test]
async fn after_a_failure_the_program_rests_and_a_valid_credential_stays() {
    let fixture = Fixture::new("exit 1");
    let plugin = fixture.plugin();
    for _ in 0..3 {
        assert!(plugin.current().await.is_err());
    }
    replace_current(&plugin, SignedDuration::from_secs(60));
    assert_eq!(token(&plugin.current().await.ok().unwrap()), "Bearer former");
    assert_eq!(fixture.starts(), 1);
}

#[tokio::test]
async fn a_program_reads_nothing_and_learns_the_cluster_if_it_asks() {
    let body = format!("cat > stdin; echo \"$KUBERNETES_EXEC_INFO\" > info\n{}", prints(r#"{"token":"new"}"#));
    let fixture = Fixture::new(&body);
    assert!(fixture.plugin().current().await.is_ok());
    assert_eq!(fs::read_to_string(fixture.path("stdin")).unwrap(), "");
    let info: serde_json::Value = serde_json::from_slice(&fs::read(fixture.path("info")).unwrap()).unwrap();
    let expected =
        serde_json::json!({ "apiVersion": API_VERSION, "kind": "ExecCredential", "spec": { "interactive": false } });
    assert_eq!(info, expected);
}

#[tokio::test]
async fn a_stop_kills_the_program_and_its_children() {
    let fixture = Fixture::new("sleep 1000 & echo $! > child; wait");
    let plugin = fixture.plugin();
    let waiting = tokio::spawn({
        let plugin = Arc::clone(&plugin);
        async move { plugin.current().await.map(drop) }
    });
    let child = || fs::read_to_string(fixture.path("child")).ok().filter(|text| text.ends_with('\n'));
    until(|| child().is_some()).await;
    let status = PathBuf::from(format!("/proc/{}/status", child().unwrap().trim()));
    plugin.stop();
    assert_eq!(waiting.await.unwrap(), Err(AccessError::Stopped));
    let is_gone = || fs::read_to_string(&status).map_or(true, |text| text.contains("State:\tZ"));
    until(is_gone).await;
}

#[test]
fn a_credential_is_refreshed_before_its_end_and_lasts_at_least_for_the_pause() {
    let ends = |seconds: i64| {
        let now = Timestamp::now();
        let issued = Issued::new(None, None, Some(now + SignedDuration::from_secs(seconds)));
        let (refresh, end) = issued.ends.unwrap();
        [refresh, end].map(|moment| moment.duration_since(now).as_secs())
    };
    assert_eq!(ends(600), [540, 600]);
    assert_eq!(ends(90), [60, 90]);
    assert_eq!((ends(3), ends(-9)), ([5, 5], [5, 5]));
}
