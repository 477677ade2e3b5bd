//! Requests that upgrade their connection, as `exec`, `attach` and `portforward` do, against a server that upgrades.

use http::{StatusCode, header};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::clock::SystemClock;

const EXEC: &str = "/api/v1/namespaces/n/pods/p/exec?command=cat";
/// The deadline of a request. Even a busy machine upgrades a connection in that time.
const SHORT: Duration = Duration::from_secs(1);

/// A server that upgrades every connection, and then returns what it receives.
async fn upgrading() -> Config {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(upgrade(connection));
        }
    });
    Config::new(url.parse().unwrap())
}

async fn upgrade(mut connection: TcpStream) -> std::io::Result<u64> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await?);
    }
    let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    connection.write_all(answer.as_bytes()).await?;
    let (mut reader, mut writer) = connection.split();
    tokio::io::copy(&mut reader, &mut writer).await
}

/// Sends a request as kube does for `exec`, and returns the upgraded connection.
async fn connect(client: &Client, method: Method, uri: &str) -> Result<TokioIo<Upgraded>, kube::Error> {
    let request = Request::builder().method(method).uri(uri);
    let request = request.header(header::CONNECTION, "upgrade").header(header::UPGRADE, "websocket");
    let response = client.send(request.body(Body::empty()).unwrap()).await?;
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    Ok(TokioIo::new(hyper::upgrade::on(response).await.unwrap()))
}

async fn carries(stream: &mut TokioIo<Upgraded>, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut returned = vec![0; text.len()];
    stream.read_exact(&mut returned).await.unwrap();
    assert_eq!(returned, text.as_bytes());
}

fn gate() -> (Arc<dyn Clock>, Publisher, WriteGate) {
    let clock = SystemClock::shared();
    let (publisher, leadership) = leadership(Arc::clone(&clock), "n/l".to_owned(), "a".to_owned(), Timing::default());
    let gate = WriteGate::new(leadership, SHORT).unwrap();
    (clock, publisher, gate)
}

#[tokio::test]
async fn an_upgraded_connection_outlasts_the_deadline_of_its_request_and_the_term() {
    let cases = [
        (Method::GET, EXEC),
        (Method::POST, EXEC),
        (Method::POST, "/api/v1/namespaces/n/pods/p/portforward"),
        (Method::GET, "/apis/example.com/v1/namespaces/n/consoles/c"),
    ];
    futures::future::join_all(cases.map(async |(method, uri)| {
        let (clock, mut publisher, gate) = gate();
        let client = gate.client(upgrading().await).unwrap();
        let refused = connect(&client, method.clone(), uri).await.unwrap_err();
        assert!(is_not_leading(&refused), "{method} {uri}: {refused}");
        lead(&mut publisher, &clock, 7, 10);
        let mut stream = connect(&client, method, uri).await.unwrap();
        carries(&mut stream, "in time").await;
        tokio::time::sleep(SHORT * 3 / 2).await;
        carries(&mut stream, "after the deadline of the request").await;
        assert!(publisher.stop_work().now_or_never().is_some(), "the connection does not hold up the end of the term");
        publisher.publish(None, None);
        carries(&mut stream, "after the term").await;
    }))
    .await;
}

#[tokio::test]
async fn an_upgrade_that_a_rule_allows_passes_whoever_leads() {
    let (_clock, _publisher, gate) = gate();
    let gate = gate.allow(|request| request.target.is_some_and(|target| target.subresource == Some("exec")));
    let client = gate.client(upgrading().await).unwrap();
    let mut stream = connect(&client, Method::GET, EXEC).await.unwrap();
    tokio::time::sleep(SHORT * 3 / 2).await;
    carries(&mut stream, "a follower").await;
    let attach = EXEC.replace("exec", "attach");
    assert!(is_not_leading(&connect(&client, Method::GET, &attach).await.unwrap_err()));
}
