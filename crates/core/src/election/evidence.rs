//! Evidence: what proves a silent holder dead, so that its Lease becomes free before it expires.
//!
//! A holder that renews needs no evidence. A holder whose record has not changed for longer than usual is *silent*.
//! Only then does the election read the holder's Pod, at intervals. Evidence is a fact of the past that stays true, so
//! a late answer does no harm. The grant that follows is conditional on the version of the Lease, so a renewal that
//! arrives before it wins.
//!
//! The rule that must hold: evidence is about the very process that the session on the Lease names. These prove
//! nothing, because the process may still run: a missing Pod, a failed phase, a node that is not ready, and a deletion
//! timestamp.

mod reads;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::model::{CandidateRecord, ContainerEnd, Evidence, LeaseRecord, Moment, Observed, PodRecord, SessionStamp};

/// The reasons with which a kubelet or a container runtime reports an end that it has not observed.
const UNOBSERVED_ENDS: [&str; 2] = ["ContainerStatusUnknown", "Unknown"];

/// By how much `renewTime` may be later than `finishedAt`, which the kubelet truncates to seconds.
const TRUNCATION: Duration = Duration::from_secs(1);

/// How many renewals per lease duration to expect of a holder until the controller has observed an interval.
const ASSUMED_RENEWALS_PER_LEASE: u32 = 5;

/// Why a Pod or a Node proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// The session names neither a pod nor a container.
    NoPlace,
    /// The Pod is gone. Its processes may still run.
    PodMissing,
    /// It is not the Pod that both the session and the candidate name.
    AnotherPod,
    /// The processes of a container may outlive it, because the Pod shares a process namespace.
    SharedProcesses,
    /// The container has not terminated.
    NotTerminated,
    /// The kubelet did not observe the end, or reported no time.
    EndUnobserved,
    /// The container ended before the term began, so the holder is a later process.
    EndedBeforeTerm,
    /// The holder has renewed after the end.
    RenewedAfterEnd,
    /// The controller has not observed how the term began, nor a renewal. An earlier holder may rely on the Lease.
    EarlierHolder,
}

/// What an election knows about a holder that may be silent. It starts over with every term.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct HolderWatch {
    /// When the holder last renewed, or its term began. `None` after the first observed record, which may be old.
    renewed_at: Option<Moment>,
    /// The usual interval between two renewals, near the upper end of its jitter.
    interval: Option<Duration>,
    /// When the Pod or its node was last read, since the last renewal.
    read_at: Option<Moment>,
    /// The node of the Pod, since the last renewal.
    node: Option<Arc<str>>,
    /// Whether the last read was of the node.
    has_read_node: bool,
    /// Why the last answer proved nothing.
    doubt: Option<Doubt>,
    /// What proved the holder dead, and after how long a silence.
    proof: Option<(Evidence, Duration)>,
}

impl HolderWatch {
    /// The watch of a new term. `at` is when the term began; `None` if the controller did not observe that.
    pub(super) fn begun(at: Option<Moment>) -> Self {
        Self { renewed_at: at, ..Self::default() }
    }

    /// Records a renewal. One late renewal, as after a freeze, hardly changes the usual interval; several in a row do.
    pub(super) fn renewed(&mut self, at: Moment) {
        let observed = self.renewed_at.map(|before| at.since(before));
        let interval = match (self.interval, observed) {
            (Some(before), Some(interval)) => {
                let interval = interval.min(before.saturating_mul(3) / 2);
                let faded = (before.saturating_mul(3).saturating_add(interval)) / 4;
                Some(interval.max(faded))
            }
            (before, interval) => before.or(interval),
        };
        *self = Self { renewed_at: Some(at), interval, ..Self::default() };
    }

    /// When the holder of this record becomes silent: after one and a quarter usual intervals without a renewal.
    fn silent_from(&self, observed: &Observed) -> Moment {
        let lease = Duration::from_secs(u64::from(observed.greatest_seconds()));
        let usual = self.interval.unwrap_or(lease / ASSUMED_RENEWALS_PER_LEASE);
        observed.changed_at().after(usual.saturating_mul(5) / 4)
    }
}

/// The UID of the pod and the name of the container in the session of this record.
fn place(record: &LeaseRecord) -> Option<(&str, &str)> {
    let mut parts = SessionStamp::place(&record.session.stamp()?.session)?.split('.');
    parts.next().zip(parts.next())
}

/// Checks that this is the Pod of the holder. The owner of the candidate must be the same Pod as that of the session. A
/// static pod owns no candidate; the session then names the hash by which the kubelet knows it.
fn is_pod_of(record: &LeaseRecord, candidate: &CandidateRecord, pod: &PodRecord) -> Result<(), Doubt> {
    let (uid, _) = place(record).ok_or(Doubt::NoPlace)?;
    let is_same = match &candidate.pod {
        Some(owner) => owner.uid == uid && pod.uid == uid,
        None => pod.config_hash.as_deref() == Some(uid),
    };
    if is_same { Ok(()) } else { Err(Doubt::AnotherPod) }
}

/// Checks whether a container that has terminated was the holder's, in this term.
fn has_terminated(record: &LeaseRecord, pod: &PodRecord) -> Result<Evidence, Doubt> {
    let (_, container) = place(record).ok_or(Doubt::NoPlace)?;
    if pod.shares_processes {
        return Err(Doubt::SharedProcesses);
    }
    let mut doubt = Doubt::NotTerminated;
    for end in pod.ends.iter().filter(|end| end.container == container) {
        match is_end_of_term(record, end) {
            Ok(()) => return Ok(Evidence::ContainerTerminated),
            Err(found) => doubt = found,
        }
    }
    Err(doubt)
}

/// Checks whether this end of a container also ended the term. All times come from the clock of one node.
fn is_end_of_term(record: &LeaseRecord, end: &ContainerEnd) -> Result<(), Doubt> {
    let finished_at = end.finished_at.ok_or(Doubt::EndUnobserved)?;
    if UNOBSERVED_ENDS.contains(&&*end.reason) {
        return Err(Doubt::EndUnobserved);
    }
    if record.acquire_time.is_none_or(|acquired| finished_at < acquired) {
        return Err(Doubt::EndedBeforeTerm);
    }
    if record.renew_time.is_none_or(|renewed| renewed > finished_at.after(TRUNCATION)) {
        return Err(Doubt::RenewedAfterEnd);
    }
    Ok(())
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPlace => "the session names no container",
            Self::PodMissing => "the Pod is gone, and its processes may still run",
            Self::AnotherPod => "the Pod is another one than that of the session or of the candidate",
            Self::SharedProcesses => "the Pod shares a process namespace, so processes may outlive their container",
            Self::NotTerminated => "the container has not terminated",
            Self::EndUnobserved => "the kubelet has not observed the end of the container",
            Self::EndedBeforeTerm => "the container ended before the term began",
            Self::RenewedAfterEnd => "the holder renewed after the container had ended",
            Self::EarlierHolder => {
                "the controller has not observed a renewal of this term, so an earlier holder may \
                 rely on the Lease"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SessionMark, WireTime};

    fn silence(intervals_millis: &[u64], lease_seconds: u32) -> Duration {
        let mut at = Moment::from_micros(0);
        let mut watch = HolderWatch::begun(Some(at));
        for interval in intervals_millis {
            at = at.after(Duration::from_millis(*interval));
            watch.renewed(at);
        }
        let record = LeaseRecord { duration_seconds: lease_seconds, ..LeaseRecord::default() };
        let observed = Observed::first(record, Moment::from_micros(0));
        watch.silent_from(&observed).since(Moment::from_micros(0))
    }

    #[test]
    fn a_holder_is_silent_a_quarter_later_than_usual_and_jitter_alone_never_makes_it_silent() {
        assert_eq!(silence(&[2_000], 15), Duration::from_millis(2_500));
        assert!(silence(&[2_400, 2_000, 2_000, 2_000], 15) > Duration::from_millis(2_500), "2.4 s is still usual");
        assert!(silence(&[26_000, 26_000], 137) > Duration::from_secs(31));
        assert!(silence(&[2_000, 8_000], 15) < Duration::from_secs(4), "one late renewal");
        assert!(silence(&[2_000, 8_000, 8_000, 8_000, 8_000], 15) > Duration::from_secs(8), "late renewals are usual");
    }

    #[test]
    fn a_renewal_soon_after_the_first_observed_record_does_not_set_the_usual_interval() {
        let mut watch = HolderWatch::begun(None);
        for (millis, interval) in [(100, None), (2_100, Some(2_000)), (4_100, Some(2_000))] {
            watch.renewed(Moment::from_micros(millis * 1_000));
            assert_eq!(watch.interval, interval.map(Duration::from_millis));
        }
    }

    #[test]
    fn a_session_without_a_pod_and_a_container_names_no_place() {
        let pod = PodRecord { uid: "u".to_owned(), ..PodRecord::default() };
        let record = |session: &str| LeaseRecord {
            session: SessionMark::read(Some(&format!("{session}/1/15"))),
            ..LeaseRecord::default()
        };
        for (session, doubt) in [("random", Doubt::NoPlace), ("u.c.n.random", Doubt::NotTerminated)] {
            assert_eq!(has_terminated(&record(session), &pod), Err(doubt));
        }
        assert_eq!(Doubt::NoPlace.to_string(), "the session names no container");
    }

    #[test]
    fn each_end_of_a_container_is_checked() {
        let time = |seconds: i64| Some(WireTime::from_micros(seconds * 1_000_000));
        let end = |finished_at| ContainerEnd { container: "c".to_owned(), finished_at, reason: "Error".to_owned() };
        let (former, last) = (end(time(4)), end(time(9)));
        let session = SessionMark::read(Some("u.c.n.random/1/15"));
        let record = LeaseRecord { session, acquire_time: time(5), renew_time: time(9), ..LeaseRecord::default() };
        for ends in [vec![former.clone(), last.clone()], vec![last, former]] {
            let pod = PodRecord { uid: "u".to_owned(), ends, ..PodRecord::default() };
            assert_eq!(has_terminated(&record, &pod), Ok(Evidence::ContainerTerminated));
        }
    }

    #[test]
    fn an_end_counts_from_the_second_of_the_acquisition_to_one_second_before_the_last_renewal() {
        let time = |millis: i64| Some(WireTime::from_micros(millis * 1_000));
        let end = |finished_at| ContainerEnd { container: "c".to_owned(), finished_at, reason: "Error".to_owned() };
        let record = LeaseRecord { acquire_time: time(5_000), renew_time: time(9_000), ..LeaseRecord::default() };
        for (finished, expected) in [(7_999, Err(Doubt::RenewedAfterEnd)), (8_000, Ok(()))] {
            assert_eq!(is_end_of_term(&record, &end(time(finished))), expected, "{finished} ms");
        }
        let record = LeaseRecord { renew_time: time(5_000), ..record };
        for (finished, expected) in [(4_999, Err(Doubt::EndedBeforeTerm)), (5_000, Ok(()))] {
            assert_eq!(is_end_of_term(&record, &end(time(finished))), expected, "{finished} ms");
        }
    }

    #[test]
    fn before_the_first_renewal_a_quarter_of_the_lease_is_silence() {
        assert_eq!(silence(&[], 20), Duration::from_secs(5));
        assert!(silence(&[], 137) > Duration::from_secs(31), "renewed every 26 s");
        // A client that shortens the duration does not make the holder renew more often.
        let held = |seconds, transitions| LeaseRecord {
            holder: Some("a".to_owned()),
            duration_seconds: seconds,
            transitions,
            ..LeaseRecord::default()
        };
        let (mut observed, start) = (Observed::first(held(60, 1), Moment::from_micros(0)), Moment::from_micros(0));
        observed.observe(LeaseRecord { resource_version: 2, ..held(20, 2) }, start);
        assert_eq!(HolderWatch::begun(None).silent_from(&observed).since(start), Duration::from_secs(15));
    }
}
