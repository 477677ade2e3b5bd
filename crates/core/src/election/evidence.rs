//! Evidence: what proves a holder dead, so that its Lease becomes free before it expires.
//!
//! The controller watches Pods, and reports each version of a Pod that belongs to a candidate. Evidence is a fact of the
//! past that stays true, so a watch that lags behind only delays. The grant that follows is conditional on the version
//! of the Lease, so a renewal that arrives before it wins.
//!
//! The rule that must hold: evidence is about the very process that the session on the Lease names. These prove
//! nothing, because the process may still run: a Pod that a list lacks, a failed phase, a node that is not ready, and a
//! deletion timestamp.

mod assisted;
mod places;

use std::fmt;
use std::time::Duration;

pub(super) use self::assisted::HolderHomes;
pub(super) use self::places::CandidateHome;
use crate::model::{CandidateRecord, ContainerEnd, Evidence, LeaseRecord, PodRecord, WireTime};

/// The reasons with which a kubelet or a container runtime reports an end that it has not observed.
const UNOBSERVED_ENDS: [&str; 2] = ["ContainerStatusUnknown", "Unknown"];

/// By how much `renewTime` may be later than `finishedAt`, which the kubelet truncates to seconds.
const TRUNCATION: Duration = Duration::from_secs(1);

/// Why nothing proves the holder dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// The session names neither a pod nor a container.
    NoPlace,
    /// The controllers watch no Pods.
    NotWatched,
    /// The watch has shown no Pod of the holder.
    PodUnknown,
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
    /// The instance that ended is a later one than the holder of an assisted Lease.
    StartedAfterTerm,
    /// The holder of an assisted Lease has the host name of its node, which is no name of a Pod.
    HostNetwork,
    /// The Pod lacks the container that the [option](crate::assist::AssistOptions::container) of an assisted Lease names.
    NoContainer,
    /// Several containers can be that of the holder, and no option names one.
    Ambiguous,
    /// The controller has not observed how the term began, nor a renewal. An earlier holder may rely on the Lease.
    EarlierHolder,
}

/// What the evidence shows about the holder of the present record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct HolderEvidence {
    /// Why it proves nothing.
    doubt: Option<Doubt>,
    /// What proved the holder dead, and how long after the last change of the record.
    proof: Option<(Evidence, Duration)>,
}

/// Checks that this is the Pod of the holder. The owner of the candidate must be the same Pod as that of the session. A
/// static pod owns no candidate; the session then names the hash by which the kubelet knows it.
fn is_pod_of(record: &LeaseRecord, candidate: &CandidateRecord, pod: &PodRecord) -> Result<(), Doubt> {
    let (uid, _) = record.session.pod_and_container().ok_or(Doubt::NoPlace)?;
    let is_same = match &candidate.pod {
        Some(owner) => owner.uid == uid && *pod.uid == *uid,
        None => pod.config_hash.as_deref() == Some(uid),
    };
    if is_same { Ok(()) } else { Err(Doubt::AnotherPod) }
}

/// Checks whether a container that has terminated was the holder's, in this term.
fn has_terminated(record: &LeaseRecord, pod: &PodRecord) -> Result<Evidence, Doubt> {
    let (_, container) = record.session.pod_and_container().ok_or(Doubt::NoPlace)?;
    if pod.shares_processes() {
        return Err(Doubt::SharedProcesses);
    }
    let mut doubt = Doubt::NotTerminated;
    for end in pod.ends(container) {
        match is_end_of_term(record, pod, end) {
            Ok(()) => return Ok(Evidence::ContainerTerminated),
            Err(found) => doubt = found,
        }
    }
    Err(doubt)
}

/// Checks whether this end of a container also ended the term. All times come from the clock of one node.
fn is_end_of_term(record: &LeaseRecord, pod: &PodRecord, end: &ContainerEnd) -> Result<(), Doubt> {
    let is_observed = !UNOBSERVED_ENDS.contains(&&*end.reason);
    let finished_at = end.finished_at.filter(|_| is_observed).ok_or(Doubt::EndUnobserved)?;
    // An end in the second of the acquisition may be that of a former instance, unless none can have followed.
    let latest = if pod.is_over { finished_at.after(TRUNCATION) } else { finished_at };
    if record.acquire_time.is_none_or(|acquired| latest < acquired) {
        return Err(Doubt::EndedBeforeTerm);
    }
    let is_later = |renewed: WireTime| renewed > finished_at.after(TRUNCATION);
    if record.renew_time.is_none_or(is_later) { Err(Doubt::RenewedAfterEnd) } else { Ok(()) }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPlace => "the session names no container",
            Self::NotWatched => "the controllers have no --evidence-pods",
            Self::PodUnknown => "no Pod of the holder is known",
            Self::AnotherPod => "the Pod is another one than that of the holder",
            Self::SharedProcesses => "the Pod shares a process namespace, so processes may outlive their container",
            Self::NotTerminated => "the container has not terminated",
            Self::EndUnobserved => "the kubelet has not observed the end of the container",
            Self::EndedBeforeTerm => "the container ended before the term began",
            Self::RenewedAfterEnd => "the holder renewed after the container had ended",
            Self::StartedAfterTerm => "the container that ended had started after the term began",
            Self::HostNetwork => "the Pod uses the network of its host, so no holder has its name",
            Self::NoContainer => "the Pod lacks the container that the option names",
            Self::Ambiguous => "several containers of the Pod can be the holder's, and no option names one",
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
    use crate::model::{ContainerRecord, SessionMark};

    #[test]
    fn a_session_without_a_pod_and_a_container_names_no_place() {
        let pod = PodRecord { uid: "u".into(), ..PodRecord::default() };
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
        let end = |seconds: i64| ContainerEnd::at(WireTime::from_micros(seconds * 1_000_000), "Error");
        let (former, last) = (end(4), end(9));
        let session = SessionMark::read(Some("u.c.n.random/1/15"));
        let record = LeaseRecord { session, acquire_time: time(5), renew_time: time(9), ..LeaseRecord::default() };
        for ends in [[former.clone(), last.clone()], [last, former]] {
            let containers = [ContainerRecord::ended("c", ends)].into();
            let pod = PodRecord { uid: "u".into(), containers, ..PodRecord::default() };
            assert_eq!(has_terminated(&record, &pod), Ok(Evidence::ContainerTerminated));
        }
    }

    #[test]
    fn an_end_counts_from_the_second_of_the_acquisition_to_one_second_before_the_last_renewal() {
        let time = |millis: i64| Some(WireTime::from_micros(millis * 1_000));
        let end = |finished_at| ContainerEnd { finished_at, ..ContainerEnd::default() };
        let record = LeaseRecord { acquire_time: time(5_000), renew_time: time(9_000), ..LeaseRecord::default() };
        let pod = |is_over| PodRecord { is_over, ..PodRecord::default() };
        for (finished, expected) in [(7_999, Err(Doubt::RenewedAfterEnd)), (8_000, Ok(()))] {
            assert_eq!(is_end_of_term(&record, &pod(false), &end(time(finished))), expected, "{finished} ms");
        }
        let record = LeaseRecord { renew_time: time(5_000), ..record };
        for (finished, expected) in [(4_999, Err(Doubt::EndedBeforeTerm)), (5_000, Ok(()))] {
            assert_eq!(is_end_of_term(&record, &pod(false), &end(time(finished))), expected, "{finished} ms");
        }
        for (finished, expected) in [(3_999, Err(Doubt::EndedBeforeTerm)), (4_000, Ok(()))] {
            assert_eq!(is_end_of_term(&record, &pod(true), &end(time(finished))), expected, "{finished} ms");
        }
    }
}
