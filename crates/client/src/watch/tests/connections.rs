//! The connections of watches and writes, over a transport in memory.

use std::convert::Infallible;
use std::future::Ready;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use http::Uri;
use hyper::rt::{self, Read, ReadBufCursor};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::{sleep, timeout};
use tower::Service;

use super::*;
use crate::testing::client_over;

/// Makes connections in memory, and counts them.
#[derive(Clone, Default)]
struct Connector(Arc<AtomicU32>);

/// The client's end of a connection.
struct Pipe(TokioIo<DuplexStream>);

impl Service<Uri> for Connector {
    type Response = Pipe;
    type Error = Infallible;
    type Future = Ready<Result<Pipe, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        self.0.fetch_add(1, Ordering::SeqCst);
        let (near, far) = duplex(64 * 1024);
        tokio::spawn(answer(far));
        ready(Ok(Pipe(TokioIo::new(near))))
    }
}

impl Connection for Pipe {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Pipe {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl rt::Write for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// How long an answer to a request for `/slow` takes.
const SLOW_ANSWER: Duration = Duration::from_secs(4);

/// Answers the requests on one connection. A watch ends regularly after a minute.
async fn answer(mut connection: DuplexStream) -> io::Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(connection.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&head);
        if head.contains("/slow") {
            sleep(SLOW_ANSWER).await;
        }
        if !head.contains("watch=true") {
            connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await?;
            continue;
        }
        connection.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
        if head.contains("/silent") {
            std::future::pending::<()>().await;
        }
        if head.contains("sendInitialEvents=") {
            let event = event(END_OF_INITIAL_EVENTS);
            connection.write_all(format!("{:x}\r\n", event.len()).as_bytes()).await?;
            connection.write_all(&[&event[..], b"\r\n"].concat()).await?;
        }
        sleep(Duration::from_secs(LONGEST_WATCH_SECONDS.into())).await;
        connection.write_all(b"0\r\n\r\n").await?;
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_write_after_hours_of_silence_needs_no_new_connection() {
    let connector = Connector::default();
    let client = client_over(connector.clone(), "n");
    let mut versions = pin!(watch_object::<ReadLease>(client.clone(), "n", "l", 0));
    assert!(matches!(versions.next().await, Some(None)), "the list is empty");
    assert!(timeout(Duration::from_hours(3), versions.next()).await.is_err(), "nothing changes");
    let before = connector.0.load(Ordering::SeqCst);
    let write = http::Request::patch("/apis").body(Vec::new()).unwrap();
    client.request_text(write).await.unwrap();
    assert_eq!(connector.0.load(Ordering::SeqCst), before);
}

#[tokio::test(start_paused = true)]
async fn the_idle_time_of_a_connection_does_not_count_towards_the_next_answer() {
    let connector = Connector::default();
    let client = client_over(connector.clone(), "n");
    let write = async || {
        let write = http::Request::patch("/slow").body(Vec::new()).unwrap();
        client.request_text(write).await
    };
    write().await.unwrap();
    // A silent connection is closed after 65 s.
    sleep(Duration::from_secs(62)).await;
    write().await.unwrap();
    assert_eq!(connector.0.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_gives_up_connecting_after_five_seconds() {
    let connector = tower::service_fn(|_: Uri| std::future::pending::<Result<Pipe, Infallible>>());
    let client = client_over(connector, "n");
    let watch = http::Request::get("/apis?watch=true").body(Vec::new()).unwrap();
    let ended = timeout(Duration::from_secs(6), client.request_text(watch)).await;
    assert!(ended.is_ok_and(|answer| answer.is_err()), "it waits for the connection");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_connection_is_silent_for_longer_than_a_watch_lasts() {
    let client = client_over(Connector::default(), "n");
    let watch = http::Request::get("/silent?watch=true").body(Vec::new()).unwrap();
    let ended = timeout(Duration::from_secs(66), client.request_text(watch)).await;
    assert!(ended.is_ok_and(|answer| answer.is_err()), "it waits for a server that is gone");
}
