//! An HTTP client without a library. Each request has its own connection.

#![allow(dead_code, reason = "each test binary needs some of it")]

use std::net::SocketAddr;

use hustings_controlplane::PATIENCE;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a request over a new connection, and waits for the answer.
pub(crate) async fn ask(address: SocketAddr, method: &str, path: &str) -> Answer {
    answer(send(address, method, path).await).await
}

/// Sends a request over a new connection.
pub(crate) async fn send(address: SocketAddr, method: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{method} {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
    stream
}

/// Waits for the answer to a request.
pub(crate) async fn answer(mut stream: TcpStream) -> Answer {
    let mut text = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut text)).await.unwrap().unwrap();
    let (headers, body) = text.split_once("\r\n\r\n").unwrap();
    let code = headers.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { code, headers: headers.to_owned(), body: body.to_owned() }
}
