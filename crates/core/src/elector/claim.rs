//! When an elector that does not lead begins a term: on a grant, on its own Lease, or on a free one.
//!
//! - [`Vacancy`] identifies one period without a holder.
//! - [`Fallback`] gives the candidates an order while no controller elects.
//! - [`Preference`] asks a live holder to hand over, in direct mode.
//!
//! The rule that must hold: a claim is a conditional write on a Lease that is free by this elector's own view.

mod fallback;
mod preference;
mod vacancy;

use super::attempts::{is_reclaimable, names_session};
use super::deciding::WriteTask;
use super::plan::Plan;
use super::timers::Timer;
use super::writes::preferred_other;
use super::{Config, Elector, ElectorMode};
use crate::model::{CandidateKind, LeaseRecord, LeaseStage, Moment, Purpose};
pub use fallback::CONTROLLER_WAIT;
pub(super) use fallback::Fallback;
pub(super) use preference::Preference;
use vacancy::Vacancy;

impl Elector {
    pub(super) fn plan_fallback(&mut self, now: Moment, plan: &mut Plan) {
        let has_candidate = self.candidate.as_ref().is_some_and(|candidate| candidate.stands_elsewhere().is_none());
        if !has_candidate || !self.lifecycle.may_begin(now) || self.lease.view().is_own_creation() {
            return;
        }
        if let Some(vacancy) = Vacancy::of(&self.lease) {
            self.fallback.plan(vacancy, hold_of(self.lease.view().record()), &self.config, now, plan);
        }
    }

    /// The write that begins a term or asks for the Lease, whether or not it is time for one.
    pub(super) fn next_claim(&self, now: Moment, plan: &mut Plan) -> Option<WriteTask> {
        let Config { identity, session, mode, timing, .. } = &self.config;
        if !self.lifecycle.may_begin(now) {
            return None;
        }
        if let Some(observed) = self.lease.view().present() {
            let record = observed.record();
            if record.stage(Some(CandidateKind::Hustings)) == LeaseStage::Granted
                && record.holder.as_ref() == Some(identity)
            {
                return Some(WriteTask::Begin(Purpose::TakeUp));
            }
            // The term belongs to this instance and has ended, or to a dead instance: no process can rely on it.
            let is_of_session = record.holder.is_some() || observed.is_late_release();
            if is_of_session && is_reclaimable(record, identity, session) && !self.has_kept_from_another(record) {
                return Some(WriteTask::Begin(Purpose::Claim));
            }
        }
        let vacancy = Vacancy::of(&self.lease)?;
        let mut claim_at = match mode {
            // A hold that was set since the list shows a controller, which ends the fallback.
            ElectorMode::Coordinated(_) if !self.lease.view().is_own_creation() => self.fallback.claim_at(vacancy)?,
            // In direct mode no controller grants the Lease or ends the pause. The elector ignores the end of the pause:
            // it must not depend on its own wall clock.
            ElectorMode::Direct if self.lease.view().record().is_some_and(LeaseRecord::is_paused) => return None,
            ElectorMode::Coordinated(_) | ElectorMode::Direct => vacancy.free_from,
        };
        if self.lease.view().record().is_some_and(|record| self.has_kept_from_another(record)) {
            claim_at = claim_at.after(timing.lease_duration());
        }
        plan.wake_at(Timer::Claim, claim_at);
        if let Some(observed) = self.lease.view().present().filter(|observed| now < observed.expires_at())
            && let Some(from) = self.preference.request_from(observed.record(), identity)
        {
            plan.wake_at(Timer::HandOverRequest, from);
            return (now >= from).then_some(WriteTask::Ask);
        }
        (now >= claim_at)
            .then(|| if self.lease.view().is_missing() { WriteTask::Create } else { WriteTask::Begin(Purpose::Claim) })
    }

    /// Whether this instance's last term ended with its work still running, although the Lease named a preferred
    /// holder. The elector then lets the Lease expire, and claims it later than usual, so that the preferred holder
    /// wins the race for it.
    fn has_kept_from_another(&self, record: &LeaseRecord) -> bool {
        let Config { identity, session, .. } = &self.config;
        names_session(record, identity, session) && preferred_other(record, identity).is_some()
    }
}

fn hold_of(record: Option<&LeaseRecord>) -> Option<&str> {
    record.and_then(|record| record.hold.as_deref())
}
