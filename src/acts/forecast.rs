//! What the controller would do now: its own decision, over the objects as they are and in virtual time.
//!
//! The forecast assumes that a candidate answers pings unless its status calls it Unresponsive, and that the holder goes
//! on renewing. It ends with the first write of the Lease that names a candidate.

use std::time::Duration;

use hustings_client::api::ReadCandidate;
use hustings_core::election::{Action, Config, Election, Event, Observation, Source, TransferRefusal};
use hustings_core::model::{CandidateRecord, CandidateState, LeaseRecord, Moment, Now, Purpose, Set, WireTime};

/// How far the forecast reaches: two election windows and some more.
const HORIZON: Duration = Duration::from_secs(12);

/// How many decisions a forecast makes at most.
const DECISIONS: usize = 200;

/// The pause between two renewals of the holder.
const RENEWAL: Duration = Duration::from_secs(2);

/// The forecast.
#[derive(Clone, Debug, Default)]
pub(super) struct Forecast {
    /// What the controller would report, in order.
    pub(super) events: Vec<Event>,
    /// The candidate that would be named in the end, as holder or as preferred holder.
    pub(super) named: Option<String>,
}

impl Forecast {
    /// Why the controller would refuse a transfer.
    pub(super) fn refusal(&self) -> Option<&TransferRefusal> {
        self.events.iter().find_map(|event| match event {
            Event::TransferRefused { why, .. } => Some(why),
            _ => None,
        })
    }
}

/// Predicts what the controller would do with this Lease and these candidates at the wall-clock time `wall`.
pub(super) fn forecast(
    (namespace, name): (&str, &str),
    lease: &LeaseRecord,
    candidates: &[ReadCandidate],
    wall: WireTime,
) -> Forecast {
    World::new((namespace, name), lease.clone(), candidates, wall).run()
}

struct World {
    election: Election,
    lease: LeaseRecord,
    candidates: Vec<CandidateRecord>,
    now: Now,
    renewed_at: Moment,
    version: u64,
    forecast: Forecast,
}

impl World {
    fn new(key: (&str, &str), lease: LeaseRecord, candidates: &[ReadCandidate], wall: WireTime) -> Self {
        let config = Config { settling: Duration::ZERO, ..Config::default() };
        let now = Now { moment: Moment::from_micros(0), wall };
        let candidates: Vec<_> = candidates.iter().map(|candidate| candidate.record.clone()).collect();
        let newest = candidates.iter().map(|record| record.resource_version).max().unwrap_or(0);
        let version = newest.max(lease.resource_version);
        let election = Election::new(config, key.0, key.1);
        let mut world =
            Self { election, lease, candidates, now, renewed_at: now.moment, version, forecast: Forecast::default() };
        world.show_lease();
        for record in world.candidates.clone() {
            world.election.observe(now, Observation::Candidate { record, source: Source::Watch });
        }
        world
    }

    fn run(mut self) -> Forecast {
        let end = self.now.moment.after(HORIZON);
        for _ in 0..DECISIONS {
            let decision = self.election.decide(self.now);
            let mut is_done = false;
            let mut is_idle = true;
            for action in decision.actions {
                is_idle &= matches!(action, Action::Event(_) | Action::PatchStatus { .. });
                is_done |= self.carry_out(action);
            }
            if is_done || self.now.moment >= end {
                break;
            }
            if is_idle {
                self.advance(decision.deadline.min(end));
            }
        }
        self.forecast
    }

    /// Carries the action out. Returns whether it names a candidate, which ends the forecast.
    fn carry_out(&mut self, action: Action) -> bool {
        match action {
            Action::WriteLease { write, event } => {
                self.forecast.events.extend(event);
                let named = match write.purpose {
                    Purpose::Grant => &write.holder,
                    _ => &write.preferred_holder,
                };
                if let Set::To(name) = named {
                    self.forecast.named = Some(name.clone());
                    return true;
                }
                self.version = self.version.saturating_add(1);
                let native = write.native_fields_after(&self.lease);
                self.lease = LeaseRecord { native, ..write.applied_to(&self.lease, self.version) };
                let source = Source::Written { sent: self.now.moment };
                self.election.observe(self.now, Observation::Lease { record: self.lease.clone(), source });
            }
            Action::Ping { candidate, ping_time, .. } => {
                self.version = self.version.saturating_add(2);
                let sent = self.now.moment;
                if let Some(record) = self.candidates.iter_mut().find(|record| record.key() == candidate) {
                    record.ping_time = Some(ping_time);
                    record.resource_version = self.version;
                    let pinged = record.clone();
                    let answers = record.status.state != Some(CandidateState::Unresponsive);
                    self.election
                        .observe(self.now, Observation::Candidate { record: pinged, source: Source::Written { sent } });
                    if answers {
                        record.renew_time = Some(ping_time.later_than(record.renew_time));
                        record.resource_version = self.version.saturating_add(1);
                        let record = record.clone();
                        self.election.observe(self.now, Observation::Candidate { record, source: Source::Watch });
                    }
                    self.version = self.version.saturating_add(1);
                }
            }
            Action::ReadCandidate { candidate } => {
                let source = Source::Read { sent: self.now.moment };
                let record = self.candidates.iter().find(|record| record.key() == candidate).cloned();
                self.election.observe(
                    self.now,
                    match record {
                        Some(record) => Observation::Candidate { record, source },
                        None => Observation::CandidateMissing { candidate, source },
                    },
                );
            }
            Action::ReadLease => self.show_lease(),
            Action::Event(event) => self.forecast.events.push(event),
            // What follows takes another process or object.
            _ => {}
        }
        false
    }

    /// Lets time pass until `moment`, or until the holder renews.
    fn advance(&mut self, moment: Moment) {
        let renewal = self.renewed_at.after(RENEWAL);
        let next = moment.min(renewal);
        let passed = next.since(self.now.moment).max(Duration::from_micros(1));
        self.now = Now { moment: self.now.moment.after(passed), wall: self.now.wall.after(passed) };
        let is_held = self.lease.holder.is_some() && !self.lease.is_grant() && !self.lease.is_native_grant();
        if is_held && self.now.moment >= renewal {
            self.renewed_at = self.now.moment;
            self.version = self.version.saturating_add(1);
            self.lease.renew_time = Some(self.now.wall.later_than(self.lease.renew_time));
            self.lease.resource_version = self.version;
            self.show_lease();
        } else if !is_held {
            self.renewed_at = self.now.moment;
        }
    }

    fn show_lease(&mut self) {
        let source = Source::Read { sent: self.now.moment };
        self.election.observe(self.now, Observation::Lease { record: self.lease.clone(), source });
    }
}

#[cfg(test)]
mod tests {
    use hustings_core::model::{LeaseActs, SessionMark, Transfer};
    use serde_json::json;

    use super::*;

    fn candidate(name: &str, version: &str, state: &str) -> ReadCandidate {
        ReadCandidate::from_json(json!({
            "metadata": { "name": name, "namespace": "n", "uid": name, "resourceVersion": "5" },
            "spec": { "leaseName": "l", "binaryVersion": version, "emulationVersion": version },
            "status": { "state": state },
        }))
    }

    fn held(transfer: &str) -> LeaseRecord {
        LeaseRecord {
            resource_version: 9,
            holder: Some("a".to_owned()),
            session: SessionMark::read(Some("s/1/15")),
            transitions: 1,
            strategy: Some("OldestEmulationVersion".to_owned()),
            acts: LeaseActs { transfer: Some(Transfer::read(transfer)), ..LeaseActs::default() },
            ..LeaseRecord::as_created()
        }
    }

    fn predict(transfer: &str) -> Forecast {
        let candidates = [
            candidate("a", "1.32", "Holder"),
            candidate("b", "1.32", "Standby"),
            candidate("worse", "1.33", "Standby"),
            candidate("dead", "1.32", "Unresponsive"),
        ];
        forecast(("n", "l"), &held(transfer), &candidates, WireTime::from_micros(1))
    }

    #[test]
    fn a_transfer_names_the_candidate_that_the_controller_would_prefer() {
        for transfer in ["b", "any"] {
            let predicted = predict(transfer);
            assert_eq!((predicted.named.as_deref(), predicted.refusal()), (Some("b"), None), "{transfer}");
        }
    }

    #[test]
    fn a_transfer_that_the_controller_would_refuse_comes_with_its_reason() {
        for (to, expected) in [
            ("worse", "The holder has an older emulation version."),
            ("dead", "Did not answer a ping"),
            ("nobody", "the Lease has no candidate of this name."),
            ("a", "it holds the Lease."),
        ] {
            let predicted = predict(to);
            let refusal = predicted.refusal().map(ToString::to_string).unwrap_or_default();
            assert!(refusal.starts_with(expected), "{to}: {refusal}");
            assert_eq!(predicted.named, None, "{to}");
        }
    }
}
