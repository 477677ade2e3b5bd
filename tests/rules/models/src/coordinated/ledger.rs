//! Which candidate has answered which controller. The model records this itself, so that it checks S4 by its definition
//! and not by the state of the code under test.

use hustings_core::election::{Action, Decision, Observation, Source};
use hustings_core::model::{CandidatePatch, Moment, Purpose, Request, Set, WireTime};

use super::index_of;

/// The pings of one controller and the answers it has observed, in the order of the candidates' ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ledger {
    proofs: Vec<Proof>,
    /// All candidates have one version.
    are_equal: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Proof {
    /// When the candidate was last pinged, and the ping time.
    asked: Option<(Moment, WireTime)>,
    /// The version that the last ping created, and its renew time.
    pinged: Option<(u64, Option<WireTime>)>,
    /// The newest version and its renew time.
    newest: Option<(u64, Option<WireTime>)>,
    answered_at: Option<Moment>,
}

impl Ledger {
    pub(super) fn new(candidates: usize, are_equal: bool) -> Self {
        Self { proofs: vec![Proof::default(); candidates], are_equal }
    }

    /// After a new ping, answers to earlier ones no longer count.
    pub(super) fn note_action(&mut self, action: &Action, now: Moment) {
        if let Action::Send { request, .. } = action
            && let Request::PatchCandidate { candidate, patch: CandidatePatch::Ping(ping_time), .. } = request
        {
            let proof = &mut self.proofs[index_of(&candidate.name)];
            *proof = Proof { asked: Some((now, *ping_time)), newest: proof.newest, ..Proof::default() };
        }
    }

    pub(super) fn note(&mut self, observation: &Observation, now: Moment) {
        match observation {
            Observation::Candidate { record, source } => {
                let proof = &mut self.proofs[index_of(&record.name)];
                let seen = (record.resource_version, record.renew_time);
                let is_asked = proof.asked.is_some_and(|(_, ping_time)| record.ping_time == Some(ping_time));
                if is_asked && proof.pinged.is_none() && matches!(source, Source::Written { .. }) {
                    proof.pinged = Some(seen);
                }
                proof.newest = proof.newest.max(Some(seen));
                if let (Some((pinged, before)), Some((newest, renew_time))) = (proof.pinged, proof.newest)
                    && newest > pinged
                    && renew_time != before
                {
                    proof.answered_at.get_or_insert(now);
                }
            }
            Observation::CandidateMissing { candidate, .. } => {
                self.proofs[index_of(&candidate.name)] = Proof::default();
            }
            Observation::Lease { .. }
            | Observation::LeaseMissing { .. }
            | Observation::Pod { .. }
            | Observation::Node { .. }
            | Observation::Failed { .. } => {}
        }
    }

    /// Whether `decision` breaks S4. It does in these cases:
    ///
    /// - It grants the Lease to a candidate that has not answered, or asks the holder to hand over to such a candidate.
    /// - It grants the Lease although a better undamped candidate has answered in time.
    /// - It prefers a candidate that is only equal to the holder.
    pub(super) fn forbids(&self, decision: &Decision) -> bool {
        decision.actions.iter().any(|action| {
            let Action::Send { request: Request::WriteLease { write, .. }, .. } = action else { return false };
            let electee = match (write.purpose, &write.holder, &write.preferred_holder) {
                (Purpose::Prefer, _, Set::To(_)) if self.are_equal => return true,
                (Purpose::Grant, Set::To(electee), _) | (Purpose::Prefer, _, Set::To(electee)) => index_of(electee),
                _ => return false,
            };
            let is_damped = |who: usize| {
                let verdict = decision.candidates.iter().find(|verdict| index_of(&verdict.candidate.name) == who);
                verdict.is_none_or(|verdict| verdict.damping_count > 0)
            };
            let outranks = |who: usize| {
                let Proof { asked: Some((asked_at, _)), answered_at: Some(answered_at), .. } = self.proofs[who] else {
                    return false;
                };
                answered_at < asked_at.after(super::controller::config(false).window) && !is_damped(who)
            };
            self.proofs[electee].answered_at.is_none()
                || (write.purpose == Purpose::Grant && (0..electee).any(outranks))
        })
    }
}
