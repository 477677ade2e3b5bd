//! Predicts what the controller would do. It runs the controller's own decision in virtual time, on the objects as they
//! are now.
//!
//! A forecast assumes that a candidate answers pings, unless its status is Unresponsive. The caller chooses whether the
//! holder lives or dies at once. The forecast ends with the first write of the Lease that names a candidate.

use std::time::Duration;

use hustings_core::election::{
    CandidateVerdict, Config, Doubt, Election, Event, EvidenceConfig, Observation, Source, Timer, TransferRefusal,
};
use hustings_core::model::{
    CandidateKey, CandidatePatch, CandidateRecord, CandidateState, LeaseRecord, LeaseStage, Moment, Now, PodRecord,
    Purpose, Reply, Request, Set, WireTime, reliance,
};
use hustings_lab::{Bare, BareTerm, Controller, Entry, Lab, News, micros};

use super::simulation::between;

/// How far the forecast reaches beyond the expiry of the Lease: two election windows and a little more.
const HORIZON: Duration = Duration::from_secs(12);

/// The most events of a forecast. With evidence there are two decisions per second, for at most an hour.
const MOST_EVENTS: usize = 100_000;

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
    /// Why the holder's Pod proves nothing, if the controller watches it.
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
    let is_alive = holder == HolderForecast::Lives;
    let lasts = objects.lease.filter(|_| !is_alive).map_or(Duration::ZERO, |lease| reliance(lease.declared_seconds()));
    let mut lab = lab(objects, holder, wall);
    let start = lab.now_micros;
    let end = start.saturating_add(micros(lasts.saturating_add(HORIZON)));
    let mut forecast = Forecast::default();
    let first = |lab: &Lab| {
        let decision = lab.controllers[0].decision.as_ref().filter(|decision| decision.timer != Timer::StatusRest)?;
        Some((decision.deadline.since(Moment::from_micros(start)), decision.timer))
    };
    lab.run_until(end, MOST_EVENTS, |lab| first(lab).is_some() || named(lab, is_alive).is_some());
    forecast.first_deadline = first(&lab);
    lab.run_until(end, MOST_EVENTS, |lab| named(lab, is_alive).is_some());
    forecast.named = named(&lab, is_alive).map(str::to_owned);
    forecast.named_after = between(start, lab.now_micros);
    let controller = &mut lab.controllers[0];
    forecast.doubt = controller.election.doubt();
    forecast.verdicts = controller.decision.take().map_or_else(Vec::new, |decision| decision.candidates);
    let last = if forecast.named.is_some() { lab.news.len() } else { 0 };
    for (index, Entry { at_micros, news, .. }) in (1..).zip(lab.take_news()) {
        match news {
            News::Report(event) => forecast.events.push(event),
            // The event of the last write would be reported with its answer.
            News::Answered { report, .. } if index == last => forecast.events.extend(report),
            News::Answered {
                request: Request::PatchCandidate { candidate, patch: CandidatePatch::Ping(_), .. },
                ..
            } if lab.bare.iter().any(|bare| bare.candidate == candidate && bare.answers) => {
                forecast.pings.push((between(start, at_micros), candidate.name.to_string()));
            }
            _ => {}
        }
    }
    forecast
}

/// The candidate that the last write of the Lease names.
fn named(lab: &Lab, is_alive: bool) -> Option<&str> {
    let News::Answered { request: Request::WriteLease { write, .. }, reply, .. } = &lab.news.last()?.news else {
        return None;
    };
    if !matches!(**reply, Reply::Landed(_)) {
        return None;
    }
    match (write.purpose, &write.holder, &write.preferred_holder) {
        // A dead holder hands over to nobody.
        (Purpose::Grant, Set::To(name), _) => Some(name),
        (_, _, Set::To(name)) if is_alive && write.purpose != Purpose::Grant => Some(name),
        _ => None,
    }
}

/// The usual interval between two renewals of a holder with this lease: 2 s of 15 s, as by default.
pub(crate) fn usual_interval(lease_seconds: u32) -> Duration {
    Duration::from_secs(u64::from(lease_seconds)) * 2 / 15
}

/// Creates a lab with these objects, a controller that has observed them, and their processes.
fn lab(objects: Objects<'_>, holder: HolderForecast, wall: WireTime) -> Lab {
    let Objects { key: (namespace, name), lease, candidates, unchanged_for } = objects;
    let mut lab = Lab::new(name, wall);
    lab.records_requests = true;
    lab.server.store.keep_native_fields(true);
    let (is_alive, pod) = match holder {
        HolderForecast::Lives => (true, None),
        HolderForecast::Dies { pod } => (false, pod),
    };
    let evidence = EvidenceConfig { pods: pod.is_some(), ..EvidenceConfig::default() };
    let config = Config { settling: Duration::ZERO, evidence, ..Config::default() };
    let mut election = Election::new(config, namespace, name);
    let changed_at = lab.now_micros.saturating_sub(micros(unchanged_for));
    let read =
        |at: i64| (Now { moment: Moment::from_micros(at), wall }, Source::Read { sent: Moment::from_micros(at) });
    if let Some(lease) = lease {
        for (record, at) in renewals(lease, changed_at) {
            let (now, source) = read(at);
            let record = lab.server.store.put_lease(name, record).clone();
            election.observe(now, Observation::Lease { record, source });
        }
    } else {
        let (now, source) = read(changed_at);
        election.observe(now, Observation::LeaseMissing { source });
    }
    let now = read(lab.now_micros).0;
    let mut keys: Vec<CandidateKey> = candidates.iter().map(|record| record.key()).collect();
    for record in candidates {
        let record = lab.server.store.put_candidate(record.clone()).clone();
        election.observe(now, Observation::Candidate { record, source: Source::Watch });
    }
    if let Some(pod) = pod {
        election.observe(now, Observation::Pod { record: pod.into() });
    }
    // The watch shows what happens from now on.
    let mut controller = Controller::new("controller", election, true);
    controller.process.watch_delay = None;
    lab.add_controller(controller);
    lab.controllers[0].process.watch_delay = Some(Duration::ZERO);
    // A holder may have no candidate.
    let held_by = lease.and_then(|lease| lease.holder.as_deref()).unwrap_or_default();
    if keys.iter().all(|key| *key.name != *held_by) {
        keys.push(CandidateKey::hustings(held_by));
    }
    for key in keys {
        let record = lab.server.store.candidate(key.clone());
        let mut bare = Bare::new(key.clone());
        bare.answered = record.and_then(|record| record.ping_time);
        bare.answers = record.is_none_or(|record| record.status.state != Some(CandidateState::Unresponsive));
        if let Some(lease) = lease.filter(|_| *key.name == *held_by) {
            if is_alive && lease.stage(None) == LeaseStage::InTerm {
                // A Lease may declare no duration.
                let renews_every = usual_interval(lease.declared_seconds().max(1));
                bare.term = Some(BareTerm {
                    mark: lease.session.clone(),
                    lease_seconds: lease.duration_seconds,
                    renews_every,
                    // An overdue renewal comes right after the first decision.
                    renewed_at: changed_at.max(lab.now_micros.saturating_sub(micros(renews_every)).saturating_add(1)),
                });
            }
            bare.answers &= is_alive;
        }
        lab.add_bare(bare);
    }
    lab
}

/// The renewal before the last one, and the Lease itself, each with its time. A running controller has observed both.
fn renewals(lease: &LeaseRecord, changed_at: i64) -> Vec<(LeaseRecord, i64)> {
    let ago = micros(usual_interval(lease.declared_seconds()));
    let before = lease.renew_time.filter(|_| lease.session.stamp().is_some()).map(|renewed| {
        let renew_time = Some(WireTime::from_micros(renewed.as_micros().saturating_sub(ago)));
        (LeaseRecord { renew_time, ..lease.clone() }, changed_at.saturating_sub(ago))
    });
    before.into_iter().chain([(lease.clone(), changed_at)]).collect()
}

#[cfg(test)]
mod tests;
