//! Predicts what the controller would do. It runs the controller's own decision in virtual time, on the objects as they
//! are now.
//!
//! A forecast assumes that a candidate answers pings, unless its status is Unresponsive. The caller chooses whether the
//! holder lives or dies at once. The forecast ends with the first write of the Lease that names a candidate.

use std::time::Duration;

use hustings_core::election::{
    Action, CandidateVerdict, Config, Doubt, Election, Event, EvidenceConfig, Observation, Source, Timer,
    TransferRefusal,
};
use hustings_core::model::{
    CandidateKey, CandidateRecord, CandidateState, LeaseRecord, LeaseStage, LeaseWrite, Moment, Now, PodRecord,
    Purpose, Set, WireTime, reliance,
};

/// How far the forecast reaches beyond the expiry of the Lease: two election windows and a little more.
const HORIZON: Duration = Duration::from_secs(12);

/// The most decisions of a forecast. With evidence there are two per second, for at most an hour.
const DECISIONS: usize = 10_000;

/// What the holder does in a forecast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HolderForecast {
    /// It keeps renewing.
    Lives,
    /// It stops renewing, and answers no pings.
    Dies {
        /// Its Pod after the death; `None` if the controller reads no Pods.
        pod: Option<PodRecord>,
    },
}

/// The objects of one election.
#[derive(Clone, Debug)]
pub(crate) struct Objects<'a> {
    /// Namespace and name of the Lease.
    pub(crate) key: (&'a str, &'a str),
    /// The Lease; `None` if it does not exist.
    pub(crate) lease: Option<&'a LeaseRecord>,
    /// Its candidates.
    pub(crate) candidates: Vec<&'a CandidateRecord>,
    /// How long ago the Lease last changed, as far as the caller knows.
    pub(crate) unchanged_for: Duration,
}

/// The result of a forecast.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forecast {
    /// The controller's reports, in order.
    pub(crate) events: Vec<Event>,
    /// The candidate that the controller would name, as holder or as preferred holder.
    pub(crate) named: Option<String>,
    /// When the controller would name it.
    pub(crate) named_after: Duration,
    /// The candidates that the controller would ping before that, and when. Those known to be dead are left out.
    pub(crate) pings: Vec<(Duration, String)>,
    /// The first deadline of a decision, and its timer. Deadlines for writing statuses do not count.
    pub(crate) first_deadline: Option<(Duration, Timer)>,
    /// The verdicts of the last decision, best rank first.
    pub(crate) verdicts: Vec<CandidateVerdict>,
    /// Why the holder's Pod proves nothing, if the controller would read it.
    pub(crate) doubt: Option<Doubt>,
}

impl Forecast {
    /// Why the controller would refuse a transfer.
    pub(crate) fn refusal(&self) -> Option<&TransferRefusal> {
        self.events.iter().find_map(|event| match event {
            Event::TransferRefused { why, .. } => Some(why),
            _ => None,
        })
    }
}

/// Predicts what the controller would do with these objects from the wall-clock time `wall` on.
pub(crate) fn forecast(objects: Objects<'_>, holder: HolderForecast, wall: WireTime) -> Forecast {
    World::new(objects, holder, wall).run()
}

/// The usual interval between two renewals of a holder with this lease: 2 s of 15 s, as by default.
pub(crate) fn usual_interval(lease_seconds: u32) -> Duration {
    Duration::from_secs(u64::from(lease_seconds)) * 2 / 15
}

struct World {
    election: Election,
    lease: Option<LeaseRecord>,
    candidates: Vec<CandidateRecord>,
    holder: HolderForecast,
    start: Moment,
    now: Now,
    renewed_at: Moment,
    version: u64,
    forecast: Forecast,
}

impl World {
    fn new(objects: Objects<'_>, holder: HolderForecast, wall: WireTime) -> Self {
        let Objects { key, lease, candidates, unchanged_for } = objects;
        let reads_pods = matches!(holder, HolderForecast::Dies { pod: Some(_) });
        let evidence = EvidenceConfig { pods: reads_pods, ..EvidenceConfig::default() };
        let config = Config { settling: Duration::ZERO, evidence, ..Config::default() };
        let candidates: Vec<_> = candidates.into_iter().cloned().collect();
        let newest = candidates.iter().map(|record| record.resource_version).max().unwrap_or(0);
        let changed_at = Moment::from_micros(0);
        let start = changed_at.after(unchanged_for);
        let mut world = Self {
            election: Election::new(config, key.0, key.1),
            lease: None,
            candidates,
            holder,
            start,
            now: Now { moment: changed_at, wall },
            renewed_at: changed_at,
            version: newest.max(lease.map_or(0, |lease| lease.resource_version)),
            forecast: Forecast::default(),
        };
        if let Some(lease) = lease {
            world.show_renewals_before(lease);
        }
        world.lease = lease.cloned();
        world.show_lease();
        world.now.moment = start;
        for record in world.candidates.clone() {
            world.election.observe(world.now, Observation::Candidate { record, source: Source::Watch });
        }
        world
    }

    /// Lets the election observe the two renewals before the last one. A running controller has observed them too, and
    /// so knows the renewal interval.
    fn show_renewals_before(&mut self, lease: &LeaseRecord) {
        let Some(renewed) = lease.renew_time.filter(|_| lease.session.stamp().is_some()) else { return };
        let interval = i64::try_from(usual_interval(lease.declared_seconds()).as_micros()).unwrap_or(0);
        for (renewals, ago) in [(2, interval.saturating_mul(2)), (1, interval)] {
            let moment = Moment::from_micros(self.now.moment.as_micros().saturating_sub(ago));
            let record = LeaseRecord {
                renew_time: Some(WireTime::from_micros(renewed.as_micros().saturating_sub(ago))),
                resource_version: lease.resource_version.saturating_sub(renewals),
                ..lease.clone()
            };
            let source = Source::Read { sent: moment };
            self.election.observe(Now { moment, ..self.now }, Observation::Lease { record, source });
        }
    }

    fn run(mut self) -> Forecast {
        let lasts = self.lease.as_ref().map_or(Duration::ZERO, |lease| reliance(lease.declared_seconds()));
        let end = self.now.moment.after(lasts.saturating_add(HORIZON));
        let end = if self.holder == HolderForecast::Lives { self.now.moment.after(HORIZON) } else { end };
        for _ in 0..DECISIONS {
            let decision = self.election.decide(self.now);
            if decision.timer != Timer::StatusRest {
                let first = (decision.deadline.since(self.start), decision.timer);
                self.forecast.first_deadline.get_or_insert(first);
            }
            self.forecast.verdicts = decision.candidates;
            let mut is_done = false;
            let mut is_idle = true;
            for action in decision.actions {
                is_idle &= matches!(
                    action,
                    Action::Event(_) | Action::PatchStatus { .. } | Action::ReadPod { .. } | Action::ReadNode { .. }
                );
                is_done |= self.carry_out(action);
            }
            if is_done || self.now.moment >= end {
                break;
            }
            if is_idle {
                self.advance(decision.deadline.min(end));
            }
        }
        self.forecast.doubt = self.election.doubt();
        self.forecast
    }

    /// Carries the action out. Returns whether it names a candidate, which ends the forecast.
    fn carry_out(&mut self, action: Action) -> bool {
        match action {
            Action::WriteLease { write, event } => return self.write(&write, event),
            Action::CreateLease => {
                self.version = self.version.saturating_add(1);
                let uid = "created".to_owned();
                self.lease = Some(LeaseRecord { uid, resource_version: self.version, ..LeaseRecord::as_created() });
                self.show_written();
            }
            Action::Ping { candidate, ping_time, .. } => self.ping(&candidate, ping_time),
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
            Action::ReadPod { .. } => {
                if let HolderForecast::Dies { pod } = &self.holder {
                    let record = pod.clone();
                    self.election.observe(self.now, Observation::Pod { record });
                }
            }
            Action::Event(event) => self.forecast.events.push(event),
            // These actions concern other processes or objects.
            Action::PatchStatus { .. } | Action::DeleteCandidate { .. } | Action::ReadNode { .. } => {}
        }
        false
    }

    fn write(&mut self, write: &LeaseWrite, event: Option<Event>) -> bool {
        self.forecast.events.extend(event);
        let named = match (write.purpose, &self.holder) {
            (Purpose::Grant, _) => &write.holder,
            (_, HolderForecast::Lives) => &write.preferred_holder,
            // A dead holder hands over to nobody.
            (_, HolderForecast::Dies { .. }) => &Set::Keep,
        };
        if let Set::To(name) = named {
            self.forecast.named = Some(name.clone());
            self.forecast.named_after = self.now.moment.since(self.start);
            return true;
        }
        self.version = self.version.saturating_add(1);
        if let Some(lease) = &self.lease {
            let native = write.native_fields_after(lease);
            self.lease = Some(LeaseRecord { native, ..write.applied_to(lease, self.version) });
        }
        self.show_written();
        false
    }

    fn ping(&mut self, candidate: &CandidateKey, ping_time: WireTime) {
        self.version = self.version.saturating_add(2);
        let sent = self.now.moment;
        let is_dead = self.holder != HolderForecast::Lives
            && self.lease.as_ref().and_then(|lease| lease.holder.as_deref()) == Some(&*candidate.name);
        let Some(record) = self.candidates.iter_mut().find(|record| record.key() == *candidate) else { return };
        record.ping_time = Some(ping_time);
        record.resource_version = self.version;
        let pinged = record.clone();
        let is_known_dead = record.status.state == Some(CandidateState::Unresponsive);
        let answers = !is_dead && !is_known_dead;
        if answers {
            self.forecast.pings.push((sent.since(self.start), candidate.name.to_string()));
        }
        self.election.observe(self.now, Observation::Candidate { record: pinged, source: Source::Written { sent } });
        self.version = self.version.saturating_add(1);
        if answers {
            record.renew_time = Some(ping_time.later_than(record.renew_time));
            record.resource_version = self.version;
            let record = record.clone();
            self.election.observe(self.now, Observation::Candidate { record, source: Source::Watch });
        }
    }

    /// Lets time pass until `moment`, or until the holder renews.
    fn advance(&mut self, moment: Moment) {
        let is_in_term = |lease: &&LeaseRecord| lease.stage(None) == LeaseStage::InTerm;
        let held = self.lease.as_ref().filter(is_in_term).filter(|_| self.holder == HolderForecast::Lives);
        let renewal = held.map(|lease| self.renewed_at.after(usual_interval(lease.declared_seconds())));
        let next = renewal.map_or(moment, |renewal| renewal.min(moment));
        let passed = next.since(self.now.moment).max(Duration::from_micros(1));
        self.now = Now { moment: self.now.moment.after(passed), wall: self.now.wall.after(passed) };
        if renewal.is_some_and(|renewal| self.now.moment >= renewal)
            && let Some(lease) = &mut self.lease
        {
            self.renewed_at = self.now.moment;
            self.version = self.version.saturating_add(1);
            lease.renew_time = Some(self.now.wall.later_than(lease.renew_time));
            lease.resource_version = self.version;
            self.show_lease();
        }
    }

    fn show_lease(&mut self) {
        let source = Source::Read { sent: self.now.moment };
        let observation = match self.lease.clone() {
            Some(record) => Observation::Lease { record, source },
            None => Observation::LeaseMissing { source },
        };
        self.election.observe(self.now, observation);
    }

    fn show_written(&mut self) {
        let source = Source::Written { sent: self.now.moment };
        if let Some(record) = self.lease.clone() {
            self.election.observe(self.now, Observation::Lease { record, source });
        }
    }
}

#[cfg(test)]
mod tests;
