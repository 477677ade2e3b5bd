//! Who is elected.
//!
//! An [`Election`] is what one controller knows of one Lease and of its candidates. It is told what became known
//! ([`Election::observe`]) and says what to do ([`Election::decide`]). It has no clock and sends nothing. The rules that
//! must hold: a grant goes to the best candidate that proved itself live in that election, no grant names another
//! holder while the Lease is held, and where nothing is to change nothing is written.

mod backoff;
mod ballot;
mod config;
mod damping;
mod decide;
mod decision;
mod draft;
mod elect;
mod member;
mod observation;
mod reason;
mod sight;
mod status;
mod tenure;
pub mod words;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use config::Config;
pub use decision::{Action, CandidateVerdict, Decision, LeaseVerdict, Unheld};
pub use observation::{Observation, Source, Target};
pub use reason::{Choice, Event, Reason};

use crate::model::{CandidateRecord, CandidateState, LeaseRecord, Moment, Now, Observed};
use backoff::Backoff;
use ballot::Ballot;
use member::Member;
use sight::{LeaseView, Sight};
use tenure::{Members, Tenure};

/// The namespace of the node heartbeats, in which nothing is ever touched.
pub const NODE_LEASES: &str = "kube-node-lease";

/// What one controller knows of one Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Election {
    config: Config,
    namespace: Arc<str>,
    name: Arc<str>,
    lease: LeaseView,
    tenure: Option<Tenure>,
    members: Members,
    ballot: Option<Ballot>,
    /// Since when the Lease has been without a holder, and how it came to that.
    unheld: Option<(Moment, Unheld)>,
    /// Since when a strategy that is not ours has kept an election from being held.
    doubted_since: Option<Moment>,
    /// Who has been asked to hand over since when, and whether the event about it is out.
    asked: Option<Asked>,
    backoff: Backoff,
}

/// A holder that has been asked to hand over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Asked {
    holder: Arc<str>,
    since: Moment,
    reported: bool,
}

impl Election {
    /// An election that knows nothing yet but its Lease's namespace and name.
    pub fn new(config: Config, namespace: &str, name: &str) -> Self {
        Self {
            config,
            namespace: namespace.into(),
            name: name.into(),
            lease: LeaseView::new(),
            tenure: None,
            members: BTreeMap::new(),
            ballot: None,
            unheld: None,
            doubted_since: None,
            asked: None,
            backoff: Backoff::default(),
        }
    }

    /// Takes note of something. A controller that does not lead does this too, so that it knows the times when it does.
    pub fn observe(&mut self, now: Now, observation: Observation) {
        match observation {
            Observation::Lease { record, source } => {
                self.pass(now.moment);
                self.see_lease(record, source, now.moment);
            }
            Observation::LeaseMissing { source } => {
                self.pass(now.moment);
                let status_says_holder = self.members.values().any(says_holder);
                self.lease.miss(source, now.moment, status_says_holder);
                if matches!(self.lease.sight, Sight::Missing(_)) {
                    self.tenure = None;
                    self.backoff.succeed();
                }
            }
            Observation::Candidate { record, source } => self.see_candidate(record, source, now.moment),
            Observation::CandidateMissing { name, source } => {
                if self.members.get(name.as_str()).is_some_and(|member| !member.is_newer_than(source)) {
                    self.members.remove(name.as_str());
                }
            }
            Observation::Failed { target: Target::Lease } => {
                self.lease.creating = false;
                self.backoff.fail(now.moment, &self.config);
            }
            Observation::Failed { target: Target::Candidate(name) } => {
                if let Some(member) = self.members.get_mut(name.as_str()) {
                    member.fail_request(now.moment, &self.config);
                }
            }
        }
    }

    /// Whether nothing is left to look after: no candidate, no Lease that the watch shows, and none that anybody may
    /// still rely on.
    pub fn is_over(&self, now: Now) -> bool {
        self.members.is_empty()
            && match &self.lease.sight {
                Sight::Unknown => true,
                Sight::Lost { .. } => false,
                Sight::Missing(missing) => !self.is_relied_upon(missing, now.moment),
                Sight::Present(observed) => !observed.record().enrolled,
            }
    }

    /// `(namespace, name)` of the Lease.
    pub fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    /// The newest version of the Lease that was seen, unless it is missing or was never seen.
    pub const fn lease(&self) -> Option<&Observed> {
        self.lease.present()
    }

    fn see_lease(&mut self, record: LeaseRecord, source: Source, now: Moment) {
        let was_unread = matches!(self.lease.sight, Sight::Unknown | Sight::Lost { .. });
        let before = self.lease.last().map(|observed| observed.record().clone());
        if !self.lease.see(record, source, now) {
            return;
        }
        if was_unread || matches!(source, Source::Written { .. }) {
            self.backoff.succeed();
        }
        let Some(observed) = self.lease.present() else { return };
        if self.tenure.is_none() || before.is_none_or(|before| !before.is_same_record(observed.record())) {
            let former = self.tenure.take();
            self.tenure = Some(Tenure::follow(former, observed.record(), &mut self.members, now, &self.config));
        }
        if let Some(tenure) = &mut self.tenure {
            tenure.hear_of_request(observed.record());
        }
    }

    fn see_candidate(&mut self, record: CandidateRecord, source: Source, now: Moment) {
        if *record.lease_name != *self.name {
            self.members.remove(record.name.as_str());
            return;
        }
        if let Some(seconds) = record.lease_duration_seconds {
            self.lease.hear_of_duration(seconds);
        }
        if let Some(member) = self.members.get_mut(record.name.as_str()) {
            member.see(record, source, now, &self.config);
        } else {
            let member = Member::first(record, now, &self.config);
            self.members.insert(Arc::clone(&member.name), member);
        }
        if let Sight::Missing(missing) = &mut self.lease.sight {
            missing.was_held |= self.members.values().any(says_holder);
        }
    }

    /// What time alone has changed.
    fn pass(&mut self, now: Moment) {
        if let (Some(tenure), Some(observed)) = (&mut self.tenure, self.lease.present()) {
            tenure.pass(observed, &mut self.members, now, &self.config);
        }
    }

    fn is_relied_upon(&self, missing: &sight::Missing, now: Moment) -> bool {
        missing.was_held && now < missing.since.after(self.lease.reliance())
    }
}

fn says_holder(member: &Member) -> bool {
    member.record.status.state == Some(CandidateState::Holder)
}
