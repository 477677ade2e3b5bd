//! Detects how a connection ends: whether its client closed it, or something else did.
//!
//! Only a close by the client is evidence about the client. The kernel closes the sockets of a dead process, whatever
//! killed it. A connection that the server cut off proves nothing: the client may be frozen or unreachable.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

/// The client at the other end of a connection. Handlers get it from the extensions of a request.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    closed: CancellationToken,
    disconnected: CancellationToken,
    ip: Option<IpAddr>,
}

/// A connection that reports its end to its [`Peer`], and cuts off a client that reads nothing.
pub(super) struct PeerConnection<S> {
    stream: S,
    peer: Peer,
    unread_limit: Duration,
    /// Runs while the client leaves a write unread.
    unread: Option<Pin<Box<Sleep>>>,
}

impl Peer {
    pub(crate) fn new(ip: Option<IpAddr>) -> Self {
        Self { ip, ..Self::default() }
    }

    /// Whether the connection comes from this host, as everything does that `kubectl port-forward` forwards. Istio's
    /// proxy uses another address of `127.0.0.0/8`, which does not count.
    pub(crate) fn is_local(&self) -> bool {
        self.ip.is_some_and(|ip| {
            matches!(ip.to_canonical(), IpAddr::V4(Ipv4Addr::LOCALHOST) | IpAddr::V6(Ipv6Addr::LOCALHOST))
        })
    }

    /// Completes when the client has closed its end, or its kernel has. A client that only shuts down its writing half
    /// counts as closed.
    ///
    /// The server notices at once, unless the client has sent more than its request. In that case it notices at the
    /// second write after the close.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Completes when the connection has ended for any reason.
    pub async fn disconnected(&self) {
        self.disconnected.cancelled().await;
    }

    pub(crate) fn close(&self) {
        self.closed.cancel();
        self.disconnect();
    }

    /// Reports an end that proves nothing about the client.
    pub(crate) fn disconnect(&self) {
        self.disconnected.cancel();
    }
}

impl<S> PeerConnection<S> {
    pub(super) const fn new(stream: S, peer: Peer, unread_limit: Duration) -> Self {
        Self { stream, peer, unread_limit, unread: None }
    }

    fn check_error(&self, error: io::Error) -> io::Error {
        if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
            self.peer.close();
        }
        error
    }

    /// Checks the result of a write, and limits how long the write may wait for the client.
    fn check_write<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(result) = written {
            self.unread = None;
            return Poll::Ready(result.map_err(|error| self.check_error(error)));
        }
        let limit = self.unread_limit;
        let unread = self.unread.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(unread.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PeerConnection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.remaining();
        let result = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        if result.is_ok() && before > 0 && buffer.remaining() == before {
            self.peer.close();
        }
        Poll::Ready(result.map_err(|error| self.check_error(error)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PeerConnection<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_write(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.check_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.check_write(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S> Drop for PeerConnection<S> {
    fn drop(&mut self) {
        self.peer.disconnect();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn connection() -> (PeerConnection<UnixStream>, Peer, UnixStream) {
        let (server, client) = UnixStream::pair().unwrap();
        let peer = Peer::default();
        (PeerConnection::new(server, peer.clone(), LIMIT), peer, client)
    }

    #[tokio::test]
    async fn closing_either_half_of_the_connection_counts_as_closed() {
        for shuts_down in [true, false] {
            let (mut connection, peer, mut client) = connection();
            client.write_all(b"x").await.unwrap();
            assert_eq!(connection.read_u8().await.unwrap(), b'x');
            assert!(!peer.closed.is_cancelled());
            if shuts_down {
                client.shutdown().await.unwrap();
            } else {
                drop(client);
            }
            assert!(connection.read_u8().await.is_err());
            assert!(peer.closed.is_cancelled() && peer.disconnected.is_cancelled());
        }
    }

    #[tokio::test]
    async fn a_client_that_ends_with_an_answer_unread_counts_as_closed() {
        let (mut connection, peer, mut client) = connection();
        client.write_all(b"x").await.unwrap();
        connection.write_all(b"answer").await.unwrap();
        assert_eq!(connection.read(&mut []).await.unwrap(), 0);
        assert!(!peer.closed.is_cancelled(), "a read without room shows nothing");
        assert_eq!(connection.read_u8().await.unwrap(), b'x');
        drop(client);
        let error = connection.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(peer.closed.is_cancelled());
    }

    #[tokio::test]
    async fn a_write_to_a_closed_client_detects_the_close_without_a_read() {
        let (mut connection, peer, mut client) = connection();
        client.write_all(b"x").await.unwrap();
        drop(client);
        assert!(connection.write_all(b"x").await.is_err());
        assert!(peer.closed.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_is_not_cut_off() {
        let (mut connection, _, mut client) = connection();
        let reading = async {
            for _ in 0..20 {
                tokio::time::sleep(LIMIT / 2).await;
                client.read_exact(&mut vec![0; 256 * 1024]).await.unwrap();
            }
        };
        let writing = async {
            for _ in 0..20 {
                connection.write_all(&vec![0; 256 * 1024]).await.unwrap();
            }
        };
        tokio::join!(reading, writing);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_cut_off_and_does_not_count_as_closed() {
        let (mut connection, peer, client) = connection();
        let error = loop {
            if let Err(error) = connection.write_all(&[0; 4096]).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(connection);
        assert!(peer.disconnected.is_cancelled() && !peer.closed.is_cancelled());
        drop(client);
    }
}
