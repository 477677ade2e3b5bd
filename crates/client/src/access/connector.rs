//! Connects to the API server, directly or through a proxy.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::uri::Scheme;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{DefaultServerNameResolver, FixedServerNameResolver, HttpsConnector, ResolveServerName};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection};
use kube::Config;
use percent_encoding::percent_decode_str;
use tower::{BoxError, Service};

use super::AccessError;
use super::tls::Tls;
use crate::store::connections::AddressConnector;

/// Makes connections with the current certificates.
#[derive(Clone)]
pub(crate) struct Connector {
    tcp: AddressConnector,
    tls: Arc<Tls>,
    proxy: Option<ProxyAddress>,
}

/// A proxy. Its URL has neither a user nor a password.
#[derive(Clone)]
struct ProxyAddress {
    url: Uri,
    kind: ProxyKind,
    login: Option<(String, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ProxyKind {
    Http,
    Socks,
}

/// A connection of any kind.
pub(crate) struct Stream {
    io: Pin<Box<dyn Io>>,
    /// Whether requests must name the server, because the other end is a proxy.
    is_proxied: bool,
}

trait Io: Read + Write + Connection + Send {}

impl<T: Read + Write + Connection + Send> Io for T {}

impl Connector {
    pub(crate) fn new(config: &Config, tcp: AddressConnector, tls: Arc<Tls>) -> Result<Self, AccessError> {
        Ok(Self { tcp, tls, proxy: config.proxy_url.as_ref().map(ProxyAddress::new).transpose()? })
    }

    /// The header that introduces this client to a proxy which sees each request, because the server has no TLS.
    pub(crate) fn proxy_authorization(&self, server: &Uri) -> Option<HeaderValue> {
        let proxy = self.proxy.as_ref().filter(|proxy| proxy.kind == ProxyKind::Http)?;
        if server.scheme() == Some(&Scheme::HTTP) { proxy.authorization() } else { None }
    }

    fn connect(&self, server: Uri) -> BoxFuture<'static, Result<Stream, BoxError>> {
        let Some(proxy) = &self.proxy else { return stream(self.with_tls(self.tcp.clone()), server, false) };
        match proxy.kind {
            ProxyKind::Socks => {
                let socks = SocksV5::new(proxy.url.clone(), self.tcp.clone());
                let socks = match proxy.login.clone() {
                    Some((user, password)) => socks.with_auth(user, password),
                    None => socks,
                };
                stream(self.with_tls(socks), with_port(server), false)
            }
            ProxyKind::Http if server.scheme() == Some(&Scheme::HTTP) => {
                stream(self.with_tls(self.tcp.clone()), proxy.url.clone(), true)
            }
            ProxyKind::Http => {
                let tunnel = Tunnel::new(proxy.url.clone(), self.with_tls(self.tcp.clone()));
                let tunnel = match proxy.authorization() {
                    Some(value) => tunnel.with_auth(value),
                    None => tunnel,
                };
                stream(self.with_tls(tunnel), server, false)
            }
        }
    }

    /// Adds TLS to the connections with URLs that begin with `https`.
    fn with_tls<C>(&self, connector: C) -> HttpsConnector<C> {
        let resolver: Arc<dyn ResolveServerName + Send + Sync> = match self.tls.server_name() {
            Some(name) => Arc::new(FixedServerNameResolver::new(name.clone())),
            None => Arc::new(DefaultServerNameResolver::default()),
        };
        HttpsConnector::new(connector, self.tls.current(), false, resolver)
    }
}

fn stream<C>(mut connector: C, uri: Uri, is_proxied: bool) -> BoxFuture<'static, Result<Stream, BoxError>>
where
    C: Service<Uri, Error: Into<BoxError>, Future: Send> + Send + 'static,
    C::Response: Read + Write + Connection + Send + 'static,
{
    let connect = async move {
        std::future::poll_fn(|context| connector.poll_ready(context)).await.map_err(Into::into)?;
        let io = connector.call(uri).await.map_err(Into::into)?;
        Ok(Stream { io: Box::pin(io), is_proxied })
    };
    connect.boxed()
}

/// The URL of a server with its port. hyper-util tells a SOCKS proxy port 443 otherwise.
fn with_port(server: Uri) -> Uri {
    let (None, Some(host), Some(_)) = (server.port(), server.host(), server.scheme().filter(|it| **it == Scheme::HTTP))
    else {
        return server;
    };
    format!("http://{host}:80/").parse().unwrap_or(server)
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Stream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        self.connect(server)
    }
}

impl ProxyAddress {
    fn new(url: &Uri) -> Result<Self, AccessError> {
        let kind = match url.scheme_str() {
            Some("http" | "https") => ProxyKind::Http,
            Some("socks5" | "socks5h") => ProxyKind::Socks,
            _ => return Err(AccessError::Proxy),
        };
        let authority = url.authority().ok_or(AccessError::Proxy)?.as_str();
        let (login, host) = match authority.rsplit_once('@') {
            Some((login, host)) => (Some(login), host),
            None => (None, authority),
        };
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let login = login.map(|login| {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            (decode(user), decode(password))
        });
        // A proxy has no path, and a SOCKS proxy its own port.
        let has_port = url.port().is_some();
        let host = if kind == ProxyKind::Socks && !has_port { format!("{host}:1080") } else { host.to_owned() };
        let scheme = if url.scheme_str() == Some("https") { "https" } else { "http" };
        let url = format!("{scheme}://{host}/").parse().map_err(|_| AccessError::Proxy)?;
        Ok(Self { url, kind, login })
    }

    fn authorization(&self) -> Option<HeaderValue> {
        let (user, password) = self.login.as_ref()?;
        Some(basic(user, password))
    }
}

/// The value of a header for a user with a password.
pub(super) fn basic(user: &str, password: &str) -> HeaderValue {
    let encoded = STANDARD.encode(format!("{user}:{password}"));
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).expect("base64 is ASCII");
    value.set_sensitive(true);
    value
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.io.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.as_mut().poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.as_mut().poll_write_vectored(context, buffers)
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.io.connected().proxy(self.is_proxied)
    }
}
