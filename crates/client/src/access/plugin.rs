//! The credential that a credential program (`exec` in a kubeconfig) returns, and its refresh.
//!
//! The rules that must hold:
//!
//! - One task at a time runs the program. It is not part of any request, so its result outlives the request.
//! - The former credential is used while it is valid. Its refresh begins a while before that ends.
//! - A rejected credential (401, or a refused TLS handshake) is replaced once, and not again within [`PAUSE`].
//! - After a failure the program rests for [`PAUSE`].

mod program;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use kube::config::{AuthInfo, ExecConfig};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::AccessError;

pub use program::credential_programs;

/// How long before its end a credential is refreshed, at most. It is never more than a third of its validity.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// How long a program rests after a run that failed, or whose result was rejected. A result counts as valid for at least
/// this time.
const PAUSE: Duration = Duration::from_secs(5);

/// The most programs of one process that share their credentials.
const MAX_PLUGINS: usize = 32;

/// Every program of this process. As in client-go, clients with the same program share its credential.
static PLUGINS: Mutex<Vec<Arc<Plugin>>> = Mutex::new(Vec::new());

/// A credential program and its latest credential.
pub(crate) struct Plugin {
    exec: ExecConfig,
    /// Tells programs with different settings apart.
    key: serde_json::Value,
    state: Mutex<PluginState>,
    changed: Notify,
}

#[derive(Default)]
struct PluginState {
    current: Option<Arc<Issued>>,
    /// Whether the server has rejected the current credential.
    is_rejected: bool,
    run: Option<AbortHandle>,
    /// Whether the process ends, so that the program must not start again.
    is_stopped: bool,
    failure: Option<(Instant, AccessError)>,
}

/// A credential that the program has returned.
pub(crate) struct Issued {
    /// The value of the header Authorization.
    pub(crate) token: Option<HeaderValue>,
    /// The PEM of a certificate and of its key.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
    at: Instant,
    /// When to refresh it, and when it ends; `None` for never.
    ends: Option<(Timestamp, Timestamp)>,
}

impl Issued {
    /// A credential that has just been returned. `expires` is the end that the program states.
    fn new(token: Option<HeaderValue>, identity: Option<(Vec<u8>, Vec<u8>)>, expires: Option<Timestamp>) -> Self {
        let now = Timestamp::now();
        let ends = expires.map(|expires| {
            let shortest = now + PAUSE;
            let margin = MARGIN.min(expires.duration_since(now) / 3);
            ((expires - margin).max(shortest), expires.max(shortest))
        });
        Self { token, identity, at: Instant::now(), ends }
    }

    fn needs_refresh(&self, now: Timestamp) -> bool {
        self.ends.is_some_and(|(refresh, _)| now >= refresh)
    }

    fn is_valid(&self, now: Timestamp) -> bool {
        self.ends.is_none_or(|(_, end)| now < end)
    }
}

impl Plugin {
    /// The program of a user, if the user has no other credential that precedes it.
    pub(crate) fn of(auth: &AuthInfo) -> Option<Arc<Self>> {
        let has_other = auth.token.is_some()
            || auth.token_file.is_some()
            || auth.username.is_some()
            || auth.client_certificate.is_some()
            || auth.client_certificate_data.is_some();
        let exec = auth.exec.as_ref().filter(|_| !has_other)?;
        let key = serde_json::json!([exec, exec.cluster, exec.drop_env]);
        let mut plugins = PLUGINS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = plugins.iter().find(|plugin| plugin.key == key) {
            return Some(Arc::clone(known));
        }
        if plugins.len() >= MAX_PLUGINS {
            plugins.remove(0);
        }
        let plugin = Arc::new(Self { exec: exec.clone(), key, state: Mutex::default(), changed: Notify::new() });
        plugins.push(Arc::clone(&plugin));
        Some(plugin)
    }

    /// The credential for a request. Waits for the program only if there is no valid credential.
    pub(crate) async fn current(self: &Arc<Self>) -> Result<Arc<Issued>, AccessError> {
        loop {
            // This precedes the look at the state, so that no change is missed.
            let changed = self.changed.notified();
            if let Some(result) = self.look() {
                return result;
            }
            changed.await;
        }
    }

    /// The certificate and key of the latest credential.
    pub(crate) fn identity(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.state().current.as_ref().and_then(|issued| issued.identity.clone())
    }

    /// Marks a credential as rejected by the server. The next request waits for another one.
    pub(crate) fn reject(self: &Arc<Self>, used: &Arc<Issued>) {
        let mut state = self.state();
        // The server may reject many requests with the same credential at once, or every credential.
        if state.current.as_ref().is_some_and(|current| Arc::ptr_eq(current, used)) && used.at.elapsed() >= PAUSE {
            state.is_rejected = true;
            self.start(&mut state);
        }
    }

    /// Starts a refresh if one is needed. Returns what a request gets, or nothing while it must wait.
    fn look(self: &Arc<Self>) -> Option<Result<Arc<Issued>, AccessError>> {
        let mut state = self.state();
        let now = Timestamp::now();
        let current = state.current.clone();
        if current.as_ref().is_none_or(|current| state.is_rejected || current.needs_refresh(now)) {
            self.start(&mut state);
        }
        let failure = state.failure.clone().filter(|_| state.run.is_none());
        match current.filter(|current| current.is_valid(now)) {
            None if state.is_stopped => Some(Err(AccessError::Stopped)),
            // A rejection may be a mistake, so without a better credential the former one is sent again.
            Some(current) if !state.is_rejected || failure.is_some() => Some(Ok(current)),
            _ => failure.map(|(_, error)| Err(error)),
        }
    }

    fn start(self: &Arc<Self>, state: &mut PluginState) {
        let rests = state.failure.as_ref().is_some_and(|(failed_at, _)| failed_at.elapsed() < PAUSE);
        if state.run.is_some() || state.is_stopped || rests {
            return;
        }
        tracing::debug!(command = self.exec.command, "the credential program starts");
        let run = Run { plugin: Arc::clone(self), result: None };
        let task = tokio::spawn(run.until_end());
        state.run = Some(task.abort_handle());
    }

    fn stop(&self) {
        let mut state = self.state();
        state.is_stopped = true;
        if let Some(run) = &state.run {
            run.abort();
        }
    }

    fn state(&self) -> MutexGuard<'_, PluginState> {
        // A panic while the lock is held leaves consistent values.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One run of the program. When it is dropped, also with its runtime, the waiting requests go on.
struct Run {
    plugin: Arc<Plugin>,
    result: Option<Result<Issued, AccessError>>,
}

impl Run {
    async fn until_end(mut self) {
        self.result = Some(program::run(&self.plugin.exec).await);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let mut state = self.plugin.state();
        state.run = None;
        match self.result.take() {
            Some(Ok(issued)) => {
                state.current = Some(Arc::new(issued));
                state.is_rejected = false;
                state.failure = None;
            }
            Some(Err(error)) => {
                if state.current.is_some() {
                    tracing::warn!(%error, "cannot refresh the credential for the API server: the former one is used while it is valid");
                }
                state.failure = Some((Instant::now(), error));
            }
            // A waiting request of another runtime starts the next run.
            None => {}
        }
        drop(state);
        self.plugin.changed.notify_waiters();
    }
}

/// Ends the programs that run, and starts none from now on.
pub(super) fn stop() {
    let plugins = PLUGINS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for plugin in plugins {
        plugin.stop();
    }
}

#[cfg(test)]
mod tests;
