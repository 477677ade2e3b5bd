//! The controller's decisions: which candidate is elected.
//!
//! An [`Election`] holds what one controller knows of one Lease and of its candidates. The caller reports observations
//! ([`Election::observe`]) and carries out decisions ([`Election::decide`]). An election has no clock and sends
//! nothing.
//!
//! The rules that must hold:
//!
//! - A grant goes to the best candidate that has proved itself live in that election.
//! - While the Lease is held, no grant names another holder.
//! - If nothing has to change, nothing is written.

mod backoff;
mod ballot;
mod builder;
mod config;
mod damping;
mod decide;
mod decision;
mod effect;
mod elect;
mod lease_view;
mod member;
mod observation;
mod order;
mod reason;
mod status;
mod tenure;
pub mod words;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use config::Config;
pub use decision::{Action, CandidateVerdict, Decision, LeaseVerdict, Unheld};
pub use effect::Write;
pub use observation::{Observation, Source, Target};
pub use reason::{Choice, Event, Reason};

use crate::model::{CandidateRecord, LeaseRecord, LeaseWrite, Moment, Now, Observed};
use backoff::Backoff;
use ballot::Ballot;
use effect::Ineffective;
use lease_view::{LeaseState, LeaseView};
use member::Member;
use tenure::{Members, Tenure};

/// The namespace of the node heartbeats. Hustings changes nothing in it.
pub const NODE_LEASES: &str = "kube-node-lease";

/// The knowledge of one controller about one Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Election {
    config: Config,
    namespace: Arc<str>,
    name: Arc<str>,
    lease: LeaseView,
    tenure: Option<Tenure>,
    members: Members,
    ballot: Option<Ballot>,
    /// The current time without a holder, if the Lease has none.
    gap: Option<Gap>,
    /// The current request to hand over, if there is one.
    asked: Option<Asked>,
    backoff: Backoff,
    /// The last write of the Lease that was decided. Its answer is still to come.
    written: Option<LeaseWrite>,
    ineffective: Ineffective,
}

/// A time without a holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Gap {
    since: Moment,
    cause: Unheld,
    /// The last election found no live candidate, and an event has reported it.
    no_live_candidate: bool,
}

/// A holder that was asked to hand over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Asked {
    holder: Arc<str>,
    since: Moment,
    reported: bool,
    preferred: Arc<str>,
    /// Since when the request names this preferred holder.
    preferred_since: Moment,
}

impl Election {
    /// An election that knows only the namespace and the name of its Lease.
    pub fn new(config: Config, namespace: &str, name: &str) -> Self {
        Self {
            config,
            namespace: namespace.into(),
            name: name.into(),
            lease: LeaseView::new(),
            tenure: None,
            members: BTreeMap::new(),
            ballot: None,
            gap: None,
            asked: None,
            backoff: Backoff::default(),
            written: None,
            ineffective: Ineffective::default(),
        }
    }

    /// Records an observation. A controller that does not lead calls this too, so that it knows the times once it
    /// leads.
    pub fn observe(&mut self, now: Now, observation: Observation) {
        match observation {
            Observation::Lease { record, source } => {
                self.pass(now);
                if matches!(source, Source::Written { .. }) {
                    self.judge_answer(&record, now.moment);
                }
                self.see_lease(record, source, now);
            }
            Observation::LeaseMissing { source } => {
                self.pass(now);
                let was_created = self.lease.is_own_creation();
                self.lease.miss(source, now.moment, self.members.values().map(|member| &member.record));
                if matches!(self.lease.state, LeaseState::Missing { .. }) {
                    self.tenure = None;
                    self.backoff.succeed();
                    if was_created {
                        self.ineffective.note(Write::Create, Some("deleted at once"), now.moment, &self.config);
                    }
                }
            }
            Observation::Candidate { record, source } => self.see_candidate(record, source, now),
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
            Observation::Failed { target: Target::Status(name) } => {
                if let Some(member) = self.members.get_mut(name.as_str()) {
                    member.fail_status(now.moment, &self.config);
                }
            }
        }
    }

    /// Whether nothing is left to decide about. An election is not over in these cases:
    ///
    /// - It has a candidate.
    /// - The watch shows the Lease, or has lost it and no live read has followed.
    /// - The Lease is missing, and its holder may still rely on it.
    pub fn is_over(&self, now: Now) -> bool {
        self.members.is_empty()
            && match &self.lease.state {
                LeaseState::Unknown => true,
                LeaseState::Lost { .. } => false,
                LeaseState::Missing { lease, .. } => now.moment >= lease.free_from(),
                LeaseState::Present(observed) => !observed.record().enrolled,
            }
    }

    /// `(namespace, name)` of the Lease.
    pub fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    /// The newest observed version of the Lease; `None` if the Lease is missing or was never observed.
    pub const fn lease(&self) -> Option<&Observed> {
        self.lease.present()
    }

    /// Since when the holder has been asked to hand over, as of the last decision.
    pub fn preferred_since(&self) -> Option<Moment> {
        self.asked.as_ref().map(|asked| asked.since)
    }

    /// The kinds of writes that succeed without effect. Each comes with the part that is lost, and with the candidate
    /// if it concerns one.
    pub fn ineffective_writes(&self) -> impl Iterator<Item = (Option<&Arc<str>>, Write, &'static str)> {
        let of_lease = self.ineffective.writes().map(|(write, lost)| (None, write, lost));
        of_lease.chain(
            self.members.values().flat_map(|member| {
                member.ineffective.writes().map(move |(write, lost)| (Some(&member.name), write, lost))
            }),
        )
    }

    /// Checks whether the answer to a write of the Lease shows that write.
    fn judge_answer(&mut self, answer: &LeaseRecord, now: Moment) {
        if let Some(write) = self.written.take() {
            self.ineffective.note(Write::Create, None, now, &self.config);
            self.ineffective.note_lease(&write, answer, now, &self.config);
        }
    }

    fn see_lease(&mut self, record: LeaseRecord, source: Source, now: Now) {
        let was_unread = matches!(self.lease.state, LeaseState::Unknown | LeaseState::Lost { .. });
        let before = self.lease.last().map(|observed| observed.record().clone());
        if !self.lease.see(record, source, now.moment) {
            return;
        }
        if was_unread || matches!(source, Source::Written { .. }) {
            self.backoff.succeed();
        }
        for member in self.members.values() {
            self.lease.observe_candidate(&member.record);
        }
        let Some(observed) = self.lease.present() else { return };
        if observed.record().enrolled && observed.record().strategy.is_some() {
            // Another client may have written what our writes lost.
            self.ineffective.note(Write::Enrol, None, now.moment, &self.config);
        }
        if self.tenure.is_none() || before.is_none_or(|before| !before.is_same_record(observed.record())) {
            let former = self.tenure.take();
            self.tenure = Some(Tenure::follow(former, observed.record(), &mut self.members, now, &self.config));
        }
        if let Some(tenure) = &mut self.tenure {
            tenure.hear_of_request(observed.record());
        }
    }

    fn see_candidate(&mut self, record: CandidateRecord, source: Source, now: Now) {
        if *record.lease_name != *self.name {
            self.members.remove(record.name.as_str());
            return;
        }
        self.lease.observe_candidate(&record);
        if let Some(member) = self.members.get_mut(record.name.as_str()) {
            member.see(record, source, now, &self.config);
        } else {
            let member = Member::first(record, now, &self.config);
            self.members.insert(Arc::clone(&member.name), member);
        }
    }

    /// Applies what has changed only because time has passed.
    fn pass(&mut self, now: Now) {
        if let (Some(tenure), Some(observed)) = (&mut self.tenure, self.lease.present()) {
            tenure.pass(observed, &mut self.members, now, &self.config);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Purpose, SessionMark, WireTime};

    fn at(seconds: i64) -> Now {
        let micros = seconds * 1_000_000;
        Now { moment: Moment::from_micros(micros), wall: WireTime::from_micros(micros) }
    }

    fn election() -> Election {
        Election::new(Config::default(), "n", "l")
    }

    fn held() -> LeaseRecord {
        LeaseRecord { resource_version: 5, holder: Some("a".to_owned()), ..LeaseRecord::as_created() }
    }

    fn see(election: &mut Election, record: LeaseRecord, source: Source, now: i64) {
        election.observe(at(now), Observation::Lease { record, source });
    }

    fn candidate() -> Observation {
        let record = CandidateRecord { name: "a".to_owned(), lease_name: "l".to_owned(), ..CandidateRecord::default() };
        Observation::Candidate { record, source: Source::Watch }
    }

    #[test]
    fn an_election_is_over_when_there_is_nothing_left_to_look_after() {
        let mut election = election();
        assert_eq!((election.key(), election.lease(), election.is_over(at(0))), (("n", "l"), None, true));
        see(&mut election, held(), Source::Watch, 0);
        assert_eq!((election.lease().map(Observed::record), election.is_over(at(0))), (Some(&held()), false));
        election.observe(at(1), Observation::LeaseMissing { source: Source::Watch });
        assert!(!election.is_over(at(1)), "it may have lost its label only");
        election.observe(at(1), Observation::LeaseMissing { source: Source::Read { sent: at(1).moment } });
        assert!(!election.is_over(at(16)), "somebody may still rely on it");
        assert!(election.is_over(at(17)));
        election.observe(at(17), candidate());
        assert!(!election.is_over(at(17)));
    }

    #[test]
    fn a_lease_that_the_watch_does_not_show_is_not_looked_after_without_candidates() {
        let mut election = election();
        see(&mut election, LeaseRecord { enrolled: false, ..held() }, Source::Read { sent: at(0).moment }, 0);
        assert!(election.is_over(at(0)));
        election.observe(at(0), candidate());
        assert!(!election.is_over(at(0)));
    }

    #[test]
    fn requests_that_failed_are_forgotten_when_the_lease_is_seen_for_the_first_time_or_written() {
        let mut election = election();
        let failed = || Observation::Failed { target: Target::Lease };
        for (source, forgotten) in
            [(Source::Watch, true), (Source::Watch, false), (Source::Written { sent: at(0).moment }, true)]
        {
            election.observe(at(0), failed());
            let record = LeaseRecord {
                resource_version: election.lease().map_or(5, |seen| seen.record().resource_version + 1),
                ..held()
            };
            see(&mut election, record, source, 0);
            assert_eq!(election.backoff.until(at(0).moment).is_none(), forgotten, "{source:?}");
        }
    }

    #[test]
    fn a_label_that_another_client_writes_is_not_reported_as_lost_any_more() {
        let mut election = election();
        let record = LeaseRecord { enrolled: false, strategy: Some("s".to_owned()), ..held() };
        election.written = Some(LeaseWrite::new(Purpose::Enrol, &record));
        see(&mut election, record.clone(), Source::Written { sent: at(0).moment }, 0);
        let lost: Vec<_> = election.ineffective_writes().collect();
        assert_eq!(lost, [(None, Write::Enrol, "label hustings.io/enrolled")]);
        let labelled = LeaseRecord { enrolled: true, resource_version: 6, ..record };
        see(&mut election, labelled, Source::Watch, 1);
        assert_eq!(election.ineffective_writes().count(), 0);
    }

    #[test]
    fn the_verdict_says_how_the_lease_came_to_be_without_a_holder() {
        let released = LeaseRecord { resource_version: 5, session: SessionMark::Open, ..LeaseRecord::as_created() };
        let grant = LeaseRecord { session: SessionMark::Open, ..held() };
        let told = [
            (LeaseRecord { transitions: 1, ..released.clone() }, 1, Unheld::Released, "released"),
            (LeaseRecord { transitions: 2, ..released.clone() }, 1, Unheld::Released, "released"),
            (released, 1, Unheld::New, "new"),
            (held(), 16, Unheld::Lapsed, "lapsed"),
            (grant, 16, Unheld::GrantNotTakenUp, "grant-not-taken-up"),
        ];
        for (record, now, expected, word) in told {
            let mut election = election();
            see(&mut election, record, Source::Watch, 0);
            let LeaseVerdict::Unheld { cause, .. } = election.decide(at(now)).lease else { panic!("held") };
            assert_eq!((cause, cause.as_str()), (expected, word));
        }
    }
}
