//! Leases and their candidates at one moment, joined and ranked for display.

use std::collections::BTreeMap;

use hustings_client::api::{MicroTime, ReadCandidate, ReadLease, pin_text};
use hustings_core::election::{Config, Election, Observation, Reason, Source};
use hustings_core::model::{
    Annotation, CandidateKey, CandidateKind, CandidateRecord, CandidateState, Hold, LeaseRecord, LeaseStage, Now,
    Observed, WireTime,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use super::native;
use crate::base::words::words;
use crate::operate::assisted::Assistance;

/// A Lease with its candidates.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub lease: String,
    /// Its state.
    pub state: LeaseState,
    /// `spec.holderIdentity`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// `spec.acquireTime`, as the holder wrote it by its own clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<MicroTime>,
    /// The Lease expires within this number of seconds unless the holder renews it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_within_seconds: Option<u64>,
    /// The identity that the holder is asked to hand over to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred: Option<String>,
    /// The strategy that orders its candidates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// The number of the term.
    pub term: u32,
    /// The term's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// The holder's preference, in direct mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<i64>,
    /// `hustings.io/hold`: why it has no holder on purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// `hustings.io/hold-until`: when the pause ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_until: Option<String>,
    /// `hustings.io/transfer`: the candidate to which an administrator transfers the Lease, or `any`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<String>,
    /// `hustings.io/pin`: the candidate that ranks first, and until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
    /// `hustings.io/leader-label`: the label that a controller keeps on the Pod of the holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_label: Option<String>,
    /// What is known of its holder, if the Lease is assisted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assist: Option<Assistance>,
    /// `hustings.io/asked-by`: who asked for the newest act, as its writer claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<String>,
    /// One sentence on the last election.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its candidates, best first.
    pub candidates: Vec<CandidateRow>,
}

words! {
    /// The state of a Lease, as far as the objects show it.
    #[derive(Default)]
    pub enum LeaseState {
        /// It has a holder.
        Held = "held",
        /// It was granted or handed over, but not taken up yet.
        Granted = "granted",
        /// Its holder stopped renewing.
        Expired = "expired",
        /// It has no holder.
        Unheld = "unheld",
        /// It has no live holder or does not exist, and the controller found none of its candidates live.
        NoCandidate = "no-candidate",
        /// It has no holder on purpose; [`LeaseRow::hold`] has the reason.
        Hold = "hold",
        /// It has candidates, but the object does not exist.
        #[default]
        Missing = "missing",
    }
}

/// A candidate with its status: the controller's last one, or for a native candidate one derived from the objects.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateRow {
    /// Its place in the ranking, from 1; `None` if it is not admissible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// Its name.
    pub name: String,
    /// The API of its LeaseCandidate.
    #[serde(rename = "apiGroup", serialize_with = "native::api_group")]
    pub kind: CandidateKind,
    /// `spec.binaryVersion`.
    pub binary_version: String,
    /// `spec.emulationVersion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulation_version: Option<String>,
    /// `spec.priority`. A native candidate has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Its state; `None` if no controller has written one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'static str>,
    /// `hustings.io/exclude`: until when an administrator excludes it, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude: Option<String>,
    /// Why it does or does not lead.
    pub reason: String,
}

impl LeaseRow {
    /// Whether this row equals another, apart from the time until expiry.
    pub(super) fn equals_except_expiry(&self, other: &Self) -> bool {
        *self == Self { expires_within_seconds: self.expires_within_seconds, ..other.clone() }
    }

    /// Whether the kind of the holder is unknown: it has neither a candidate nor a token, and is not assisted.
    pub(super) fn has_unexplained_holder(&self) -> bool {
        let stands = |holder: &String| self.candidates.iter().any(|candidate| candidate.name == *holder);
        self.token.is_none() && self.assist.is_none() && self.holder.as_ref().is_some_and(|holder| !stands(holder))
    }
}

impl CandidateRow {
    /// Its kind and name.
    pub(crate) fn key(&self) -> CandidateKey {
        CandidateKey { name: self.name.as_str().into(), kind: self.kind }
    }
}

impl LeaseState {
    /// Whether a candidate leads or is about to take up its grant.
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::Granted)
    }
}

/// Namespace and name.
pub(super) fn key(metadata: &ObjectMeta) -> (String, String) {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// The sort key by which the API server orders Leases.
pub(super) fn path(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The rows of the Leases that are enrolled or have candidates, in the order of the API server. With `any`, every Lease
/// that was read has a row.
pub(crate) fn rows(
    leases: Vec<ReadLease>,
    candidates: Vec<ReadCandidate>,
    observed: &BTreeMap<(String, String), Observed>,
    now: Now,
    any: bool,
) -> Vec<LeaseRow> {
    let mut by_lease: BTreeMap<(String, String), Vec<ReadCandidate>> = BTreeMap::new();
    for mut candidate in candidates {
        candidate.record.acts.exclude = candidate.record.acts.standing_exclusion(now.wall).cloned();
        let (namespace, _) = key(&candidate.metadata);
        by_lease.entry((namespace, candidate.record.lease_name.clone())).or_default().push(candidate);
    }
    let mut rows = Vec::new();
    for lease in leases {
        let key = key(&lease.metadata);
        let candidates = by_lease.remove(&key);
        if let (true, Some(observed)) = (any || lease.record.enrolled || candidates.is_some(), observed.get(&key)) {
            let mut candidates = candidates.unwrap_or_default();
            let is_native = native::judge((&key.0, &key.1), Some(observed), &mut candidates, now);
            rows.push(row(key, &lease, observed, now, is_native, candidates));
        }
    }
    rows.extend(by_lease.into_iter().map(|(key, mut candidates)| {
        native::judge((&key.0, &key.1), None, &mut candidates, now);
        missing(key, candidates, now)
    }));
    rows.sort_by_cached_key(|row| path(&row.namespace, &row.lease));
    rows
}

fn row(
    (namespace, name): (String, String),
    lease: &ReadLease,
    observed: &Observed,
    now: Now,
    is_native: bool,
    mut candidates: Vec<ReadCandidate>,
) -> LeaseRow {
    let record = &lease.record;
    let kind = if is_native { CandidateKind::Native } else { CandidateKind::Hustings };
    let is_grant = record.stage(Some(kind)) == LeaseStage::Granted;
    // A native holder reads only the native fields. If the server drops them, the annotation still has the strategy.
    let (strategy, preferred) = if is_native {
        (record.native.strategy.as_ref().or(record.strategy.as_ref()), &record.native.preferred_holder)
    } else {
        (record.strategy.as_ref(), &record.preferred_holder)
    };
    let holder = candidates.iter().find(|candidate| Some(&candidate.record.name) == record.holder.as_ref());
    let demoted = holder.is_some_and(|candidate| is_demoted(candidate, record.acquire_time));
    // A pause that has ended is still in force without a controller, which removes it with its next decision.
    let (hold, hold_until) = (record.hold.clone(), record.acts.hold_until.as_ref());
    let hold_until = hold_until.filter(|_| hold.is_some());
    let pin = record.acts.pin.as_ref().filter(|_| !record.pin_has_ended(now.wall));
    let without_holder = |state| if hold.is_some() { LeaseState::Hold } else { state };
    let state = match &record.holder {
        Some(_) if observed.is_expired(now.moment) || (demoted && !is_grant) => without_holder(LeaseState::Expired),
        Some(_) if is_grant => LeaseState::Granted,
        Some(_) => LeaseState::Held,
        None => without_holder(LeaseState::Unheld),
    };
    let state = or_no_candidate(state, &candidates);
    let assist = Assistance::of((&namespace, &name), record, &candidates, &[]);
    follow_holder(&mut candidates, record.holder.as_deref(), state);
    LeaseRow {
        candidates: ranked((&namespace, &name), Some(observed), candidates, now),
        namespace,
        lease: name,
        state,
        holder: record.holder.clone(),
        since: record.holder.as_ref().and(record.acquire_time).map(MicroTime),
        expires_within_seconds: state.is_held().then(|| observed.expires_at().since(now.moment).as_secs()),
        preferred: preferred.clone(),
        strategy: strategy.cloned(),
        term: record.transitions,
        token: record.token,
        key: record.key,
        hold_until: hold_until.map(|until| act_text(until, ToString::to_string)),
        hold,
        transfer: record.acts.transfer.as_ref().map(|to| to.as_str().to_owned()),
        pin: pin.map(|pin| act_text(pin, pin_text)),
        leader_label: record.acts.leader_label.as_deref().map(|label| act_text(label, ToString::to_string)),
        assist,
        asked_by: record.acts.asked_by.clone().filter(|_| has_act(record)),
        reason: lease.reason().map(str::to_owned),
    }
}

/// Whether an act of an administrator is in force. In direct mode, a transfer leaves the preferred holder alone.
fn has_act(record: &LeaseRecord) -> bool {
    let LeaseRecord { acts, hold, preferred_holder, .. } = record;
    let is_paused = matches!(Hold::read(hold.as_deref()), Some(Hold::Pause(_)));
    is_paused || preferred_holder.is_some() || acts.transfer.is_some() || acts.pin.is_some() || acts.assist.is_some()
}

/// Whether the controller's status shows that the holder has expired. A single read cannot measure that.
///
/// The controller marks the candidate of an expired holder Unresponsive or Damped. A mark from before the current term
/// does not count: if no controller runs, the mark stays although the candidate leads again.
fn is_demoted(holder: &ReadCandidate, acquire_time: Option<WireTime>) -> bool {
    let state = holder.record.status.state;
    let leading = holder.status.conditions.iter().find(|condition| condition.type_ == "Leading");
    let reported_at = leading.map(|leading| WireTime::from_micros(leading.last_transition_time.0.as_microsecond()));
    state.is_some_and(|state| matches!(state, CandidateState::Unresponsive | CandidateState::Damped))
        && !matches!((reported_at, acquire_time), (Some(reported_at), Some(acquired)) if acquired > reported_at)
}

/// Replaces the statuses that contradict the Lease. The controller writes a status up to a second after the Lease has
/// changed, so for that second the Lease alone knows who holds it.
fn follow_holder(candidates: &mut [ReadCandidate], holder: Option<&str>, state: LeaseState) {
    for record in candidates.iter_mut().map(|candidate| &mut candidate.record) {
        let Some(recorded) = record.status.state.filter(|state| *state != CandidateState::Invalid) else { continue };
        let (state, message) = match (state, holder == Some(record.name.as_str())) {
            (LeaseState::Held, true) if recorded != CandidateState::Holder => {
                (CandidateState::Holder, Reason::Leads.to_string())
            }
            (LeaseState::Granted, true) if recorded != CandidateState::Holder => {
                (CandidateState::Holder, Reason::Granted.to_string())
            }
            (_, false) if recorded == CandidateState::Holder => (
                CandidateState::Unproven,
                "Held the Lease before; the controller has not reported on it since.".to_owned(),
            ),
            _ => continue,
        };
        (record.status.state, record.status.message) = (Some(state), message);
    }
}

/// `state`, or `NoCandidate` if the Lease has no holder and the controller found none of its candidates live.
fn or_no_candidate(state: LeaseState, candidates: &[ReadCandidate]) -> LeaseState {
    let is_dead = |candidate: &ReadCandidate| {
        matches!(candidate.record.status.state, Some(CandidateState::Unresponsive | CandidateState::Invalid))
    };
    let is_free = matches!(state, LeaseState::Expired | LeaseState::Unheld | LeaseState::Missing);
    let is_hopeless = is_free && !candidates.is_empty() && candidates.iter().all(is_dead);
    if is_hopeless { LeaseState::NoCandidate } else { state }
}

/// The text of an act. A malformed act has no effect, and the text says so.
fn act_text<T>(annotation: &Annotation<T>, text: impl Fn(&T) -> String) -> String {
    match annotation {
        Annotation::Valid(value) => text(value),
        Annotation::Malformed(malformed) => format!("{} (does not parse, no effect)", malformed.text),
    }
}

/// The row of a Lease that has candidates but does not exist.
pub(crate) fn missing((namespace, lease): (String, String), candidates: Vec<ReadCandidate>, now: Now) -> LeaseRow {
    LeaseRow {
        state: or_no_candidate(LeaseState::Missing, &candidates),
        candidates: ranked((&namespace, &lease), None, candidates, now),
        namespace,
        lease,
        ..LeaseRow::default()
    }
}

/// An election that observes these objects for the first time, as that of a controller that has just started.
pub(crate) fn election<'a>(
    (namespace, name): (&str, &str),
    lease: Option<&Observed>,
    candidates: impl Iterator<Item = &'a CandidateRecord>,
    now: Now,
) -> Election {
    let mut election = Election::new(Config::default(), namespace, name);
    let moment = lease.map_or(now.moment, Observed::changed_at);
    let (source, record) = (Source::Read { sent: moment }, lease.map(|observed| observed.record().clone()));
    let missing = Observation::LeaseMissing { source };
    let observation = record.map_or(missing, |record| Observation::Lease { record, source });
    election.observe(Now { moment, ..now }, observation);
    for record in candidates {
        election.observe(now, Observation::Candidate { record: record.clone(), source: Source::Watch });
    }
    election
}

/// The rows of the candidates in the order of the election.
fn ranked(key: (&str, &str), lease: Option<&Observed>, candidates: Vec<ReadCandidate>, now: Now) -> Vec<CandidateRow> {
    let election = election(key, lease, candidates.iter().map(|candidate| &candidate.record), now);
    let mut by_key: BTreeMap<_, _> =
        candidates.into_iter().map(|candidate| (candidate.record.key(), candidate.record)).collect();
    let places = election.ranking(now).into_iter();
    let ranked = places.filter_map(|(key, rank)| Some((rank, by_key.remove(&key)?)));
    let rows = ranked.map(|(rank, record)| CandidateRow {
        rank,
        name: record.name,
        kind: record.kind,
        binary_version: record.binary_version,
        emulation_version: record.emulation_version,
        priority: (record.kind == CandidateKind::Hustings).then_some(record.priority),
        state: record.status.state.map(CandidateState::as_str),
        exclude: record.acts.exclude.as_ref().map(|exclude| act_text(exclude, ToString::to_string)),
        reason: record.status.message,
    });
    rows.collect()
}

#[cfg(test)]
mod tests;
