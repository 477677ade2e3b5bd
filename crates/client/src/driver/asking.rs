//! One request of an elector: its deadline, what is told when it fails, and how long the next one is put off.

use std::sync::Arc;
use std::time::Duration;

use hustings_core::model::Moment;

use crate::backend::Failure;
use crate::clock::{Clock, within};

/// The resource of Leases, as a Role names it.
pub(super) const LEASES: &str = "leases.coordination.k8s.io";

/// The resource of candidates, as a Role names it.
pub(super) const CANDIDATES: &str = "leasecandidates.hustings.io";

/// What one request is about.
pub(super) struct Asking {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) timeout: Duration,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) verb: &'static str,
    pub(super) resource: &'static str,
}

impl Asking {
    /// Sends the request and brings its answer, both as [`Asking::send`] and [`Asking::pause`] say.
    pub(super) async fn ask<T>(&self, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let sent = self.clock.now();
        let answer = self.send(request).await;
        self.pause(sent, &answer).await;
        answer
    }

    /// Sends the request, bounds it whatever the backend does, and tells of a failure.
    pub(super) async fn send<T>(&self, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        within(&*self.clock, self.timeout, request).await.inspect_err(|failure| self.tell(failure))
    }

    /// Leaves the server alone for as long as it asks, since an elector asks nothing anew before it has its answer;
    /// never for longer than a request may take, so that the term has a second chance.
    pub(super) async fn pause<T>(&self, sent: Moment, answer: &Result<T, Failure>) {
        if let Some(pause) = answer.as_ref().err().and_then(Failure::retry_after) {
            let until = self.clock.now().after(pause).min(sent.after(self.timeout));
            self.clock.sleep_until(until).await;
        }
    }

    fn tell(&self, failure: &Failure) {
        let Self { namespace, name, verb, resource, .. } = self;
        match failure {
            failure if failure.is_forbidden() => {
                tracing::warn!(name, %failure, "not allowed: grant the verb {verb} on {resource} in namespace {namespace}");
            }
            Failure::Refused(_) => tracing::warn!(namespace, name, verb, resource, %failure, "request refused"),
            // Whoever creates misses no object.
            Failure::Missing if *verb == "create" => {
                tracing::warn!(namespace, name, resource, "cannot create: there is no such namespace, or no such kind");
            }
            // Of the outcome of a write the elector tells.
            Failure::Unknown(_) | Failure::TimedOut(_) if *verb != "patch" => {
                tracing::warn!(namespace, name, verb, resource, %failure, "request failed");
            }
            _ => tracing::debug!(namespace, name, verb, resource, %failure, "request failed"),
        }
    }
}
