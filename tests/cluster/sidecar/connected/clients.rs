//! The clients in `examples/while-connected`, each in its language.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hustings_controlplane::{ControlPlane, Process, shared};

use super::{Sidecar, start};
use crate::replica::{lease, token, until};

/// A client as a process.
struct Client {
    process: Process,
}

/// The command of the example `file`.
fn command(file: &str) -> Command {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/while-connected").join(file);
    let interpreter = match path.extension().and_then(|extension| extension.to_str()) {
        Some("go") => return Command::new(built(&path)),
        Some("py") => "python3",
        Some("js") => "node",
        _ => "bash",
    };
    let mut command = Command::new(interpreter);
    command.arg(path);
    command
}

/// Builds a program in Go.
fn built(source: &Path) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("while-connected");
    let built = Command::new("go").args(["build", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    program
}

impl Client {
    fn start(plane: &ControlPlane, mut command: Command, name: &str, sidecar: &Sidecar) -> Self {
        command.env("SIDECAR", format!("http://{}", sidecar.listen));
        // A busy machine may delay heartbeats for seconds.
        command.env("SILENCE", "20");
        Self { process: plane.spawn(name, command).unwrap() }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.process.log()).unwrap()
    }

    /// Waits for this line after the first `before` such lines.
    async fn says(&self, line: &str, before: usize) {
        let said = async || (self.log().matches(line).count() > before).then_some(());
        until(&format!("{line:?}"), || self.log(), said).await;
    }

    fn lines(&self, line: &str) -> usize {
        self.log().matches(line).count()
    }
}

async fn lead_die_freeze_and_hand_over(file: &str) {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("clients").await.unwrap();
    let (one, two) = (start(&plane, &namespace, "one").await, start(&plane, &namespace, "two").await);
    let client =
        |name: &str, sidecar: &Sidecar| Client::start(&plane, command(file), &format!("{namespace}-{name}"), sidecar);
    let holder = async || lease(&plane, &namespace, "work").await["spec"]["holderIdentity"].clone();

    // Without a client nobody stands.
    assert_eq!((one.is_leader().await, two.is_leader().await), (503, 503));
    assert!(lease(&plane, &namespace, "work").await.is_null());

    let first = client("first", &one);
    first.says("working, token ", 0).await;
    assert_eq!(holder().await, "one");
    let second = client("second", &two);
    let standing = async || two.log().contains("standing for a client").then_some(());
    until("the second stands", || two.log(), standing).await;

    // A frozen client keeps the Lease, and the sidecar renews it.
    first.process.pause().unwrap();
    let frozen = lease(&plane, &namespace, "work").await;
    let renewed = async || {
        (lease(&plane, &namespace, "work").await["spec"]["renewTime"] != frozen["spec"]["renewTime"]).then_some(())
    };
    until("it is renewed", || one.log(), renewed).await;
    first.process.resume().unwrap();
    first.says("working, token ", first.lines("working, token ")).await;
    assert_eq!((holder().await.as_str(), second.lines("working")), (Some("one"), 0));

    // A killed one loses it at once.
    first.process.kill().unwrap();
    second.says("working, token ", 0).await;
    let held = lease(&plane, &namespace, "work").await;
    assert_eq!(held["spec"]["holderIdentity"], "two");
    second.says(&format!("working, token {}\n", token(&held)), 0).await;
    assert!(token(&held).parse::<u64>().unwrap() > token(&frozen).parse().unwrap());

    // A sidecar that stops lets its client end its work first.
    let third = client("third", &one);
    let standing = async || (one.log().matches("standing for a client").count() == 2).then_some(());
    until("the third stands", || one.log(), standing).await;
    assert_eq!(two.process.stop().await.unwrap().code(), Some(0), "{}", two.log());
    assert_eq!(second.lines("stopped"), 1, "{}", second.log());
    third.says("working, token ", 0).await;
    assert!(two.log().contains("the client has closed the connection"), "{}", two.log());
    // It reconnects until it is stopped itself.
    second.says("disconnected: ", 0).await;

    // A frozen sidecar cannot report the end of the term. Its silence does.
    one.process.pause().unwrap();
    third.says("stopped", 0).await;
}

#[tokio::test]
async fn python_client_leads_dies_freezes_and_hands_over() {
    lead_die_freeze_and_hand_over("client.py").await;
}

#[tokio::test]
async fn go_client_leads_dies_freezes_and_hands_over() {
    lead_die_freeze_and_hand_over("client.go").await;
}

#[tokio::test]
async fn node_client_leads_dies_freezes_and_hands_over() {
    lead_die_freeze_and_hand_over("client.js").await;
}

#[tokio::test]
async fn shell_client_leads_dies_freezes_and_hands_over() {
    lead_die_freeze_and_hand_over("client.sh").await;
}
