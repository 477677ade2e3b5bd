//! The clients in `examples/while-connected`, each in its language. They exit when they no longer lead, and the tests start
//! them again as a kubelet would.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures::future::join_all;
use hustings_controlplane::{PATIENCE, Process, shared};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Child;
use tokio::time::timeout;

use super::{Sidecar, start};
use crate::replica::{lease, token, until};

const FILES: [&str; 4] = ["client.py", "client.go", "client.js", "client.sh"];

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/while-connected").join(file)
}

/// The command of the example `file`, which treats a sidecar as frozen after `silence`.
fn command(file: &str, sidecar: SocketAddr, silence: Duration) -> Command {
    let path = path(file);
    let (sidecar, silence) = (format!("http://{sidecar}"), silence.as_secs());
    let interpreter = match path.extension().and_then(|extension| extension.to_str()) {
        Some("go") => {
            let mut command = Command::new(built(&path));
            command.args(["-sidecar", &sidecar, "-silence", &format!("{silence}s")]);
            return command;
        }
        Some("py") => "python3",
        Some("js") => "node",
        _ => "bash",
    };
    let mut command = Command::new(interpreter);
    command.arg(path).env("SIDECAR", sidecar).env("SILENCE", silence.to_string());
    command
}

/// Builds the program in Go, once.
fn built(source: &Path) -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("while-connected");
        let built = Command::new("go").args(["build", "-o"]).arg(&program).arg(source).status().unwrap();
        assert!(built.success());
        program
    })
}

/// The tokens with which clients have worked, in the order of their lines in the log.
fn tokens(log: &str) -> Vec<u64> {
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    whole.lines().filter_map(|line| line.split_once("working, token ")?.1.parse().ok()).collect()
}

/// Waits until the client has exited by itself, and returns its exit code.
async fn exited(client: &Process) -> Option<i32> {
    let log = || fs::read_to_string(client.log()).unwrap();
    until("the client exits", log, async || client.exit_status().unwrap()).await.code()
}

async fn lead_die_freeze_and_hand_over(file: &str) {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("clients").await.unwrap();
    let (one, two) = (start(&plane, &namespace, "one").await, start(&plane, &namespace, "two").await);
    // All clients write into one log, so its lines have the order in which the clients worked. A busy machine may delay
    // heartbeats for seconds.
    let client = |sidecar: &Sidecar| {
        plane.spawn(&format!("{namespace}-clients"), command(file, sidecar.listen, Duration::from_secs(20))).unwrap()
    };
    let held = async || lease(&plane, &namespace, "work").await;

    // Without a client nobody stands.
    assert_eq!((one.is_leader().await, two.is_leader().await), (503, 503));
    assert!(held().await.is_null());

    let first = client(&one);
    let log = || fs::read_to_string(first.log()).unwrap();
    // Waits until a client works with a greater token than the last one, which is that of the Lease.
    let works = async |former: Option<u64>| {
        let work =
            until("a client works", log, async || tokens(&log()).pop().filter(|last| Some(*last) > former)).await;
        let held = held().await;
        assert_eq!(work.to_string(), token(&held));
        (held["spec"]["holderIdentity"].as_str().unwrap().to_owned(), Some(work))
    };
    let stands = async |sidecar: &Sidecar, times: usize| {
        let standing = async || (sidecar.log().matches("standing for a client").count() == times).then_some(());
        until("the client stands", || sidecar.log(), standing).await;
    };
    let (holder, of_first) = works(None).await;
    assert_eq!(holder, "one");
    let second = client(&two);
    stands(&two, 1).await;

    // A frozen client keeps the Lease, and the sidecar renews it.
    first.pause().unwrap();
    let (frozen, lines) = (held().await, tokens(&log()).len());
    let renewed = async || (held().await["spec"]["renewTime"] != frozen["spec"]["renewTime"]).then_some(());
    until("it is renewed", || one.log(), renewed).await;
    first.resume().unwrap();
    until("it works", log, async || (tokens(&log()).len() > lines).then_some(())).await;
    assert_eq!((token(&held().await), tokens(&log()).pop()), (token(&frozen), of_first));

    // A killed one loses it at once.
    first.kill().unwrap();
    let (holder, of_second) = works(of_first).await;
    assert_eq!(holder, "two");

    // A sidecar that stops lets its client end its work first.
    let third = client(&one);
    stands(&one, 2).await;
    assert_eq!(two.process.stop().await.unwrap().code(), Some(0), "{}", two.log());
    assert!(two.log().contains("the client has closed the connection"), "{}", two.log());
    assert_eq!(exited(&second).await, Some(1), "{}", log());
    let (holder, of_third) = works(of_second).await;
    assert_eq!(holder, "one");

    // The kubelet starts each client again. One has no sidecar, and the sidecar of the other one has a client.
    for restarted in [&second, &first] {
        restarted.start().unwrap();
        assert_eq!(exited(restarted).await, Some(1), "{}", log());
    }
    let two = start(&plane, &namespace, "two").await;
    let fourth = client(&two);
    stands(&two, 1).await;
    assert_eq!((token(&held().await), tokens(&log()).pop()), (&*of_third.unwrap().to_string(), of_third));

    // The first process of a container dies by SIGTERM only if it has a handler. The runtime of Go has one.
    let stopped = third.stop().await.unwrap();
    assert!(stopped.success() || file == "client.go", "{stopped}");
    let (holder, of_fourth) = works(of_third).await;
    assert_eq!(holder, "two");

    // A frozen sidecar cannot report the end of the term. Its silence does.
    two.process.pause().unwrap();
    assert_eq!(exited(&fourth).await, Some(1), "{}", log());
    let tokens = tokens(&log());
    assert!(tokens.is_sorted() && tokens.last() == of_fourth.as_ref(), "{}", log());
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

/// Starts the example `file`, and takes the place of its sidecar. Returns the client and its connection.
async fn connected(file: &str, silence: Duration) -> (Child, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut command = command(file, listener.local_addr().unwrap(), silence);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let client = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
    let (mut stream, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    // The request. Go closes a connection on which an answer precedes it.
    assert_ne!(stream.read(&mut [0; 1024]).await.unwrap(), 0);
    (client, stream)
}

/// A busy machine may read a line in two parts.
#[tokio::test]
async fn clients_understand_an_event_that_arrives_in_parts() {
    built(&path("client.go"));
    join_all(FILES.map(async |file| {
        let (mut client, mut stream) = connected(file, PATIENCE * 2).await;
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nevent: leading\ndata: {\"token\":4711}\n\nevent: sto").await.unwrap();
        // The client in bash reads for 0.1 s at a time.
        tokio::time::sleep(Duration::from_secs(1)).await;
        stream.write_all(b"pping\ndata: {\"token\":4711}\n\n").await.unwrap();
        let code = timeout(PATIENCE, client.wait()).await.unwrap_or_else(|_| panic!("{file} goes on")).unwrap().code();
        assert_eq!(code, Some(1), "{file}");
    }))
    .await;
}

/// Another replica may lead after the silence, so the client must not be late.
#[tokio::test]
async fn clients_exit_when_the_sidecar_is_silent_for_too_long() {
    const SILENCE: Duration = Duration::from_secs(10);
    // The build blocks this thread, so another client would meanwhile treat its sidecar as frozen.
    built(&path("client.go"));
    let closed = join_all(FILES.map(async |file| {
        let (mut client, mut stream) = connected(file, SILENCE).await;
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nevent: leading\ndata: {\"token\":4711}\n\n").await.unwrap();
        // curl measures the speed over some seconds.
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let written = stream.write_all(b": alive\n\n").await;
            assert!(written.is_ok(), "{file} has closed the connection");
        }
        let silent = Instant::now();
        // The end of the stream, or of the connection if the client has not read everything.
        let closed = timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await;
        assert!(closed.is_ok(), "{file} does not close the connection");
        let time = silent.elapsed();
        assert_eq!(timeout(PATIENCE, client.wait()).await.unwrap().unwrap().code(), Some(1));
        (file, time)
    }));
    for (file, time) in closed.await {
        // A client that compares two whole periods takes twice as long. A busy machine may add the rest.
        assert!(time < SILENCE * 2, "{file} closed the connection after {time:?} of silence");
    }
}
