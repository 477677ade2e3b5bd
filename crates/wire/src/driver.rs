//! The driver of an elector, without its I/O: which requests to send until when, what an answer means to the elector, and
//! what to log. It stands under the Rust client and under the WebAssembly module alike.
//!
//! The rules that must hold:
//!
//! - The elector gets exactly one answer to each request, at the latest when the request has used up its time.
//! - A [`Step`] is in force before any of its requests is sent: its caller publishes [`Step::leading`] first.
//! - No request is repeated.

mod failures;
mod heartbeat;
mod lines;
mod observed_term;

use std::collections::BTreeMap;
use std::time::Duration;

use failures::FailureLog;
pub use heartbeat::Supervision;
use heartbeat::proves_life;
use hustings_core::elector::{
    Action, AttemptId, Config, Decision, Draw, Elector, Leading, NoteSeverity, Observation, Range, Timer,
};
use hustings_core::model::{Moment, Now, Object, Purpose, Request};
pub use lines::{Field, Line};
pub use observed_term::{LatestTerm, ObservedTerm};

use crate::failure::{Answer, Failure, reply_of};

/// The driver of one elector.
#[derive(Debug)]
pub struct Driver {
    core: Elector,
    namespace: String,
    /// How long a request may take.
    timeout: Duration,
    retry_period: Duration,
    failures: FailureLog,
    pending: BTreeMap<AttemptId, Pending>,
    /// Answers that the elector gets later, since the server asked for a pause.
    delayed: Vec<(Moment, Observation)>,
    /// The heartbeat of the work, without which the elector proves no life.
    supervision: Option<Supervision>,
    /// Whether a withheld request waits for the next beat.
    expects_beat: bool,
    lines: Vec<Line>,
    renewal: Option<Renewal>,
}

/// A request without an answer.
#[derive(Debug)]
struct Pending {
    request: Request,
    begun: Moment,
    /// It waits for a heartbeat.
    withheld: bool,
}

/// A request to send at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sending {
    /// The number under which the answer is reported.
    pub attempt: AttemptId,
    /// The request.
    pub request: Request,
    /// Then the request has timed out, and its caller drops it.
    pub until: Moment,
}

/// The end of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// How long it took.
    pub took: Duration,
    /// Whether the Lease is renewed.
    pub succeeded: bool,
}

/// The holder that a Lease names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// `spec.holderIdentity`.
    pub identity: String,
    /// When the record expires if it does not change, by the local clock.
    pub expires_at: Moment,
}

/// What to do after an observation. [`leading`](Self::leading) comes first.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is something to do")]
pub struct Step {
    /// The running term.
    pub leading: Option<Leading>,
    /// The wall-clock time that the last term owns.
    pub range: Option<Range>,
    /// Who holds the Lease, unless its record has expired.
    pub holder: Option<Holder>,
    /// The term that the Lease shows, unless it shows only a grant.
    pub observed_term: Option<ObservedTerm>,
    /// The UID of the Lease; empty until it is known.
    pub lease_uid: String,
    /// What keeps the elector from leading until a person changes it.
    pub obstacle: Option<Obstacle>,
    /// Ask the work of the term to stop, and report its end.
    pub stop_work: bool,
    /// Abort the work, and still report its end.
    pub abort_work: bool,
    /// The requests to send.
    pub requests: Vec<Sending>,
    /// The latest time of the next step.
    pub deadline: Option<Moment>,
    /// What expires then.
    pub timer: Option<&'static str>,
    /// Whether a request waits for the next heartbeat.
    pub awaits_beat: bool,
    /// What to log.
    pub lines: Vec<Line>,
    /// A renewal has ended.
    pub renewal: Option<Renewal>,
    /// Nothing is left to do after a stop.
    pub finished: bool,
}

/// A condition that keeps an elector from leading until a person changes it. The elector keeps trying.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// The candidate stands for another Lease. A candidate cannot change its Lease.
    #[error(
        "LeaseCandidate {identity} stands for Lease {other} and not for {lease}: give each elector an identity of its own"
    )]
    CandidateOfAnotherLease {
        /// The name of the candidate.
        identity: String,
        /// The Lease of this elector, as `namespace/name`.
        lease: String,
        /// The name of the other Lease, in the same namespace.
        other: String,
    },
}

impl Driver {
    /// Creates the driver of an elector in this namespace. If the work is supervised, its first beat is now.
    pub fn new(config: Config, namespace: String, supervised: bool, now: Now) -> Self {
        let timing = config.timing;
        Self {
            core: Elector::new(config, now),
            namespace,
            // Shorter than the elector's wait, so that a request is dropped before the elector sends the next one.
            // Otherwise the next request could use another stale connection of the same pool.
            timeout: timing.request_timeout().saturating_mul(99) / 100,
            retry_period: timing.retry_period(),
            failures: FailureLog::default(),
            pending: BTreeMap::new(),
            delayed: Vec::new(),
            supervision: supervised.then(|| Supervision::new(&timing, now.moment)),
            expects_beat: true,
            lines: Vec::new(),
            renewal: None,
        }
    }

    /// The elector.
    pub const fn elector(&self) -> &Elector {
        &self.core
    }

    /// The request with this number, as long as it has no answer.
    pub fn request(&self, attempt: AttemptId) -> Option<&Request> {
        self.pending.get(&attempt).map(|pending| &pending.request)
    }

    /// Records when the work showed its last heartbeat.
    pub fn beat(&mut self, at: Moment) {
        if let Some(supervision) = &mut self.supervision {
            supervision.beat(at);
        }
    }

    /// Passes an observation to the elector. Call [`decide`](Self::decide) afterwards.
    pub fn observe(&mut self, now: Now, observation: Observation) {
        self.expects_beat &= !matches!(observation, Observation::WorkStopped);
        self.core.observe(now, observation);
    }

    /// Records the answer to a request. An answer to a request that has timed out has no effect.
    pub fn answered(&mut self, now: Now, attempt: AttemptId, answer: Answer) {
        let Some(Pending { request, begun, .. }) = self.pending.remove(&attempt) else { return };
        let mut longest = self.timeout;
        if let Request::WriteLease { write, .. } = &request
            && write.purpose == Purpose::Renew
        {
            longest = longest.min(self.retry_period);
            let succeeded = matches!(&answer, Ok(Some(Object::Lease(record))) if write.is_kept_in(record));
            self.renewal = Some(Renewal { took: now.moment.since(begun), succeeded });
        }
        match &answer {
            Ok(_) => self.failures.succeeded(&request),
            Err(failure) => self.lines.push(self.failures.line(&self.namespace, &request, failure, now.moment)),
        }
        // The elector gets the answer after the pause, so it does not repeat the request any earlier. Request and pause
        // together take at most the request timeout, and those of a renewal the retry period: a term has time for few
        // renewals.
        let pause = answer.as_ref().err().and_then(Failure::retry_after);
        let until = pause.map(|pause| now.moment.after(pause).min(begun.after(longest)));
        let observation = Observation::of_reply(attempt, &request, reply_of(answer));
        match until.filter(|until| *until > now.moment) {
            Some(until) => self.delayed.push((until, observation)),
            None => self.core.observe(now, observation),
        }
    }

    /// Decides what to do now.
    pub fn decide(&mut self, now: Now, draw: Draw) -> Step {
        let mut requests = Vec::new();
        self.pass_time(now, &mut requests);
        let Decision { actions, leading, range, deadline, timer, notes, finished } = self.core.decide(now, draw);
        let (mut stop_work, mut abort_work) = (false, false);
        for action in actions {
            match action {
                Action::StopWork => stop_work = true,
                Action::AbortWork => abort_work = true,
                Action::Send { attempt, request } => {
                    let withheld = self.is_silent(now.moment) && proves_life(&request);
                    if !withheld {
                        let until = now.moment.after(self.timeout);
                        requests.push(Sending { attempt, request: request.clone(), until });
                    }
                    self.pending.insert(attempt, Pending { request, begun: now.moment, withheld });
                }
            }
        }
        self.lines.extend(notes.iter().flat_map(Line::of_note));
        if finished {
            self.lines.push(Line::new(NoteSeverity::Info, "stopped", "elector stopped"));
        }
        let (deadline, timer) = deadline
            .zip(timer.map(Timer::as_str))
            .into_iter()
            .chain(self.own_deadline())
            .min_by_key(|(deadline, _)| *deadline)
            .unzip();
        let lease = self.core.lease();
        let holder = lease.and_then(|lease| {
            Some(Holder { identity: lease.live_holder(now.moment)?.to_owned(), expires_at: lease.expires_at() })
        });
        Step {
            leading,
            range,
            holder,
            observed_term: lease.and_then(|lease| ObservedTerm::of(lease.record())),
            lease_uid: lease.map(|lease| lease.record().uid.clone()).unwrap_or_default(),
            obstacle: self.obstacle(),
            stop_work,
            abort_work,
            requests,
            deadline,
            timer,
            awaits_beat: self.pending.values().any(|pending| pending.withheld),
            lines: std::mem::take(&mut self.lines),
            renewal: self.renewal.take(),
            finished,
        }
    }

    /// Ends what has used up its time, and sends what has waited for a heartbeat.
    fn pass_time(&mut self, now: Now, requests: &mut Vec<Sending>) {
        let (due, delayed) = std::mem::take(&mut self.delayed).into_iter().partition(|(until, _)| *until <= now.moment);
        self.delayed = delayed;
        let due: Vec<_> = due;
        for (_, observation) in due {
            self.core.observe(now, observation);
        }
        let is_silent = self.is_silent(now.moment);
        let mut failed = Vec::new();
        for (attempt, pending) in &mut self.pending {
            if pending.withheld && !is_silent {
                pending.withheld = false;
                let until = pending.begun.after(self.timeout);
                requests.push(Sending { attempt: *attempt, request: pending.request.clone(), until });
            }
            // After the end of the work no beat follows, and what waits for one would delay the end of the term.
            if pending.until(self.timeout) <= now.moment || pending.withheld && !self.expects_beat {
                failed.push(*attempt);
            }
        }
        self.expects_beat = true;
        for attempt in failed {
            let is_withheld = self.pending.get(&attempt).is_some_and(|pending| pending.withheld);
            let silence = self.supervision.as_ref().map(|supervision| supervision.silence(now.moment));
            let failure = match silence.filter(|_| is_withheld) {
                Some(silence) => Failure::NoHeartbeat(silence),
                None => Failure::TimedOut(self.timeout),
            };
            requests.retain(|sending| sending.attempt != attempt);
            self.answered(now, attempt, Err(failure));
        }
    }

    fn obstacle(&self) -> Option<Obstacle> {
        let config = self.core.config();
        Some(Obstacle::CandidateOfAnotherLease {
            other: self.core.candidate_stands_for()?.to_owned(),
            identity: config.identity.clone(),
            lease: format!("{}/{}", self.namespace, config.lease_name),
        })
    }

    fn is_silent(&self, now: Moment) -> bool {
        self.supervision.as_ref().is_some_and(|supervision| supervision.is_silent(now))
    }

    fn own_deadline(&self) -> impl Iterator<Item = (Moment, &'static str)> {
        let pending = self.pending.values().map(|pending| {
            let timer = if pending.withheld { "heartbeat" } else { Timer::RequestTimeout.as_str() };
            (pending.until(self.timeout), timer)
        });
        pending.chain(self.delayed.iter().map(|(until, _)| (*until, "retry-after")))
    }
}

impl Pending {
    /// When it has used up its time. A request waits for a heartbeat for nearly all of that: a beat just before the end
    /// leaves enough for a request to a healthy server.
    fn until(&self, timeout: Duration) -> Moment {
        self.begun.after(if self.withheld { timeout.saturating_mul(9) / 10 } else { timeout })
    }
}

#[cfg(test)]
mod tests;
