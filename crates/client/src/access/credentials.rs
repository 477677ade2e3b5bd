//! Adds the header Authorization to requests.
//!
//! As in client-go, a readable token file precedes a token, and a request that carries the header already keeps it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use kube::config::AuthInfo;
use secrecy::ExposeSecret as _;
use tokio::time::Instant;
use tower::{BoxError, Service};

use super::AccessError;
use super::connector::basic;
use super::plugin::{Issued, Plugin};
use super::tls::Tls;

/// How old the content of a token file may be. A kubelet replaces a token minutes before it ends.
const TOKEN_FILE_AGE: Duration = Duration::from_secs(10);

/// The credentials of one client.
pub(crate) struct Credentials {
    source: CredentialSource,
    tls: Arc<Tls>,
}

enum CredentialSource {
    /// Nothing, or a client certificate alone.
    None,
    Fixed(HeaderValue),
    File(TokenFile),
    Plugin(Arc<Plugin>),
}

/// A token in a file that may be replaced.
struct TokenFile {
    path: PathBuf,
    last: Mutex<(HeaderValue, Option<Instant>)>,
}

/// A service whose requests carry a credential.
#[derive(Clone)]
pub(crate) struct Authorized<S> {
    inner: S,
    credentials: Arc<Credentials>,
}

/// A service with connections that it can replace.
pub(crate) trait ReplaceConnections {
    /// Makes later requests use new connections.
    fn replace_connections(&self);
}

/// A token as the value of the header; `None` if no header can carry it.
pub(crate) fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(format!("Bearer {token}").as_bytes()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

impl Credentials {
    pub(crate) fn new(auth: &AuthInfo, plugin: Option<Arc<Plugin>>, tls: Arc<Tls>) -> Result<Self, AccessError> {
        let token = auth.token.as_ref().map(|token| bearer(token.expose_secret()).ok_or(AccessError::Token("token")));
        let token = token.transpose()?;
        let source = if let (Some(user), None) = (&auth.username, &token) {
            CredentialSource::Fixed(basic(user, auth.password.as_ref().map_or("", |password| password.expose_secret())))
        } else if let Some(path) = auth.token_file.as_ref().filter(|path| !path.is_empty()) {
            CredentialSource::File(TokenFile::new(PathBuf::from(path), token)?)
        } else if let Some(token) = token {
            CredentialSource::Fixed(token)
        } else if let Some(plugin) = plugin {
            CredentialSource::Plugin(plugin)
        } else {
            CredentialSource::None
        };
        Ok(Self { source, tls })
    }

    /// The header of a request, and the program's credential from which it comes.
    async fn current(&self) -> Result<(Option<HeaderValue>, Option<Arc<Issued>>), AccessError> {
        match &self.source {
            CredentialSource::None => Ok((None, None)),
            CredentialSource::Fixed(value) => Ok((Some(value.clone()), None)),
            CredentialSource::File(file) => Ok((Some(file.current()), None)),
            CredentialSource::Plugin(plugin) => {
                let issued = plugin.current().await?;
                Ok((issued.token.clone(), Some(issued)))
            }
        }
    }

    fn reject(&self, used: Option<&Arc<Issued>>) {
        match (&self.source, used) {
            (CredentialSource::File(file), _) => file.outdate(),
            (CredentialSource::Plugin(plugin), Some(used)) => plugin.reject(used),
            _ => {}
        }
    }
}

impl TokenFile {
    /// Reads the file. If that fails, `token` is used until the file can be read.
    fn new(path: PathBuf, token: Option<HeaderValue>) -> Result<Self, AccessError> {
        let read = read_token(&path).or_else(|error| match error {
            // Like kubectl: a file with a malformed token is no missing file.
            AccessError::Token(_) => Err(error),
            error => token.ok_or(error),
        })?;
        Ok(Self { path, last: Mutex::new((read, Some(Instant::now()))) })
    }

    fn current(&self) -> HeaderValue {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (value, read_at) = &mut *last;
        if read_at.is_none_or(|read_at| read_at.elapsed() >= TOKEN_FILE_AGE) {
            // A file that was removed after the start, or that is being written, leaves the former token.
            match read_token(&self.path) {
                Ok(token) => *value = token,
                Err(error) => tracing::debug!(%error, "the former token is used"),
            }
            *read_at = Some(Instant::now());
        }
        value.clone()
    }

    fn outdate(&self) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).1 = None;
    }
}

fn read_token(path: &PathBuf) -> Result<HeaderValue, AccessError> {
    let text = std::fs::read_to_string(path).map_err(|error| AccessError::File {
        field: "tokenFile",
        path: path.clone(),
        error: error.to_string(),
    })?;
    match text.trim() {
        "" => Err(AccessError::EmptyToken(path.clone())),
        token => bearer(token).ok_or(AccessError::Token("the token in tokenFile")),
    }
}

impl<S> Authorized<S> {
    pub(crate) const fn new(inner: S, credentials: Arc<Credentials>) -> Self {
        Self { inner, credentials }
    }
}

impl<S, B, A> Service<Request<B>> for Authorized<S>
where
    S: Service<Request<B>, Response = Response<A>, Future: Send, Error: Into<BoxError>>
        + ReplaceConnections
        + Clone
        + Send
        + 'static,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let waiting = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, waiting);
        let credentials = Arc::clone(&self.credentials);
        let send = async move {
            let (value, used) = credentials.current().await?;
            if let Some(value) = value
                && !request.headers().contains_key(AUTHORIZATION)
            {
                request.headers_mut().insert(AUTHORIZATION, value);
            }
            if credentials.tls.has_changed(false) {
                ready.replace_connections();
            }
            let answer = ready.call(request).await.map_err(Into::into);
            let is_rejected = match &answer {
                Ok(answer) => answer.status() == StatusCode::UNAUTHORIZED,
                Err(error) => is_refused_by_tls(&**error),
            };
            if is_rejected {
                credentials.reject(used.as_ref());
                if credentials.tls.has_changed(true) {
                    ready.replace_connections();
                }
            }
            answer
        };
        send.boxed()
    }
}

/// Whether the server has refused the client during or after the TLS handshake.
fn is_refused_by_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    tls_error(error).is_some_and(|error| matches!(error, rustls::Error::AlertReceived(_)))
}

/// The error of TLS that caused another error, if one did.
pub fn tls_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        // An I/O error hides the error that it contains.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(found) = error.downcast_ref().or_else(|| inner.and_then(|inner| tls_error(inner))) {
            return Some(found);
        }
        next = error.source();
    }
    None
}
