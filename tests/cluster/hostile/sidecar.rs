//! The sidecar's servers under damaged requests.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::Duration;

use futures::StreamExt as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::replica::{hustings, logged_address, until};

const QUESTIONS: usize = 400;
/// How long the client waits for the answer to a damaged request. The sidecar has bounds of its own.
const INSTANT: Duration = Duration::from_millis(500);
/// How long the client waits for the answer to a proper request.
const PATIENCE: Duration = Duration::from_mins(1);

const SEEDS: [&str; 12] = [
    "GET /leader HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /leader/wait?timeout=1ms HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /leader/wait?timeout=-99999999999999999999h HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /leader/wait?timeout=%F0%9F%92%A5&timeout=%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /leader/wait?%ff=&&=&timeout HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /events HTTP/1.1\r\nHost: a\r\nLast-Event-ID: 18446744073709551616\r\n\r\n",
    "GET /sse HTTP/1.0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "POST /leader HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    "GET //../..//%2e%2e/etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET /isleader HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
];

/// The process. Dropping this value kills it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

#[tokio::test]
async fn a_sidecar_answers_after_any_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut command = hustings();
    command.args(["sidecar", "--leader-elect=false", "--lease=work", "--identity=a", "--binary-version=1.0.0"]);
    command.args(["--namespace=default", "--log-format=json", "--listen=127.0.0.1:0", "--admin-address=127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&path).unwrap());
    let mut sidecar = Running(command.spawn().unwrap());
    let log = || fs::read_to_string(&path).unwrap();
    let address = |message: &str| logged_address(&log(), message);
    let listening = async || Some([address("the sidecar listens")?, address("the admin server listens")?]);
    let addresses = until("it listens", log, listening).await;

    let mut rng = StdRng::seed_from_u64(7);
    let questions: Vec<_> = (0..QUESTIONS).map(|number| (addresses[number % 2], question(&mut rng))).collect();
    let asking = futures::stream::iter(questions).map(|(address, question)| ask(address, question, INSTANT));
    let answered = asking.buffer_unordered(32).filter(|answer| std::future::ready(!answer.is_empty())).count().await;
    assert!(answered > QUESTIONS / 20, "{answered}");

    for (address, path) in addresses.into_iter().zip(["/leader", "/livez"]) {
        let answer =
            ask(address, format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").into_bytes(), PATIENCE);
        assert!(String::from_utf8_lossy(&answer.await).starts_with("HTTP/1.1 200"), "{path}");
    }
    assert!(sidecar.0.try_wait().unwrap().is_none(), "{}", log());
    assert!(!log().contains("panicked"), "{}", log());
}

/// A seed with some bytes changed, removed or repeated.
fn question(rng: &mut StdRng) -> Vec<u8> {
    let mut bytes = SEEDS.choose(rng).unwrap().as_bytes().to_vec();
    for _ in 0..rng.random_range(0..4) {
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..4) {
            0 => bytes[at] = rng.random(),
            1 => bytes.truncate(at.max(1)),
            2 => drop(bytes.splice(at..at, std::iter::repeat_n(b'a', rng.random_range(1..20_000)))),
            _ => drop(bytes.splice(at..=at, *b"\r\n")),
        }
    }
    bytes
}

/// The bytes that arrive until the other side closes, or takes too long.
async fn ask(address: SocketAddr, question: Vec<u8>, patience: Duration) -> Vec<u8> {
    let mut answer = Vec::new();
    let Ok(mut stream) = TcpStream::connect(address).await else { return answer };
    // The other side may have closed already.
    let _ = stream.write_all(&question).await;
    let _ = timeout(patience, stream.read_to_end(&mut answer)).await;
    answer
}
