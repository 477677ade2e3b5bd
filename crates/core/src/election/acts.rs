//! Acts of administrators in an election: pause, transfer, pin and exclusion.
//!
//! [`Conditions`](super::eligibility::Conditions) apply the acts to each candidate. This module publishes events about the
//! acts. It also removes an act from the Lease when the act has ended or cannot be carried out. The controller's wall
//! clock determines when an act ends.

use std::sync::Arc;

use super::eligibility::{Conditions, Incumbent};
use super::member::Member;
use super::observing::ReportedActs;
use super::plan::Plan;
use super::{Action, AdminAct, Election, Event, LeaseVerdict, Timer, TransferRefusal, writes};
use crate::model::{Annotation, CandidateKey, Exclusion, WireTime};

impl Election {
    /// Publishes an event for each act of the Lease that begins or ends, and for each annotation that does not parse. A
    /// controller that has just begun to lead reports every act that it finds.
    pub(super) fn report_acts(&mut self, plan: &mut Plan) {
        let wall = plan.now.wall;
        let record = self.lease.view.record();
        let now = record.map_or_else(ReportedActs::default, |record| ReportedActs {
            pause: record.pause(wall).map(|pause| (pause, record.pause_until())),
            pin: record.pin(wall).cloned(),
            malformed: record.acts.malformed().cloned().collect(),
        });
        let asked_by = record.and_then(|record| record.acts.asked_by.as_ref());
        let mut report = |act| plan.act(event(act, asked_by));
        let former = &self.reported_acts;
        match (&former.pause, &now.pause) {
            (former, Some((hold, until))) if former != &now.pause => {
                report(AdminAct::Paused { hold: hold.clone(), until: *until });
            }
            (Some((_, until)), None) => report(AdminAct::Resumed { ended: has_passed(*until, wall) }),
            _ => {}
        }
        match (&former.pin, &now.pin) {
            (former, Some(pin)) if former != &now.pin => report(AdminAct::Pinned(pin.clone())),
            (Some(pin), None) => {
                report(AdminAct::Unpinned {
                    candidate: pin.candidate.clone(),
                    ended: has_passed(Some(pin.until), wall),
                });
            }
            _ => {}
        }
        for malformed in now.malformed.iter().filter(|malformed| !former.malformed.contains(malformed)) {
            plan.act(Action::Event(Event::MalformedAct { malformed: malformed.clone(), candidate: None }));
        }
        let ends =
            now.pause.as_ref().and_then(|(_, until)| *until).into_iter().chain(now.pin.as_ref().map(|pin| pin.until));
        ends.for_each(|end| set_end(end, plan));
        self.reported_acts = now;
    }

    /// Removes from the Lease a pause or a pin that has ended, and a transfer that cannot be carried out.
    pub(super) fn end_acts(&mut self, verdict: &LeaseVerdict, conditions: &Conditions, plan: &mut Plan) {
        let wall = plan.now.wall;
        let Some(record) = self.lease.view.record() else { return };
        if plan.writes_lease() || !record.enrolled {
            return;
        }
        let refusal = match (verdict, &conditions.hold) {
            (_, Some(hold)) => Some(TransferRefusal::OnHold(hold.clone())),
            // A holder that stops has deleted its candidate. The election of its successor carries the transfer out.
            (LeaseVerdict::Foreign { holder } | LeaseVerdict::Assisted { holder, .. }, _) if !self.is_leaving() => {
                Some(TransferRefusal::ForeignHolder(Arc::clone(holder)))
            }
            _ => None,
        };
        let refused = record.acts.transfer.clone().zip(refusal);
        if refused.is_some() || record.pause_has_ended(wall) || record.pin_has_ended(wall) {
            let event = refused.map(|(to, why)| Event::TransferRefused { to, why });
            let write = writes::end_acts(record, wall, event.is_some(), event.as_ref());
            self.write_lease(write, event, plan);
        }
    }

    /// Reports a transfer that this decision's election did not carry out, and removes it from the Lease. `electee` is
    /// the candidate that was elected, if any.
    pub(super) fn conclude_transfer(
        &mut self,
        electee: Option<&CandidateKey>,
        incumbent: &Incumbent,
        conditions: &Conditions,
        plan: &mut Plan,
    ) {
        let Some(to) = conditions.transfer.clone() else { return };
        let is_done = electee.is_some_and(|electee| to.includes(electee));
        let event = (!is_done).then(|| {
            let why = conditions.refusal(&self.members, &to, electee, incumbent);
            Event::TransferRefused { to, why }
        });
        if plan.writes_lease() {
            // That write removes the transfer.
            plan.actions.extend(event.map(Action::Event));
        } else if let Some(record) = self.lease.view.record() {
            let write = writes::end_acts(record, plan.now.wall, true, event.as_ref());
            self.write_lease(write, event, plan);
        }
    }
}

/// Publishes an event when the exclusion of a candidate begins or ends, and when its annotation does not parse.
pub(super) fn report_exclusion(member: &mut Member, plan: &mut Plan) {
    let wall = plan.now.wall;
    let acts = &member.record.acts;
    let now = acts.standing_exclusion(wall).cloned();
    let former = &member.reported.exclusion;
    let exclusion = |exclude: &Option<Annotation<Exclusion>>| exclude.as_ref().and_then(Annotation::valid).cloned();
    let candidate = || (member.key.clone(), Arc::clone(&member.uid));
    let act = match (exclusion(former), exclusion(&now)) {
        (former, Some(exclusion)) if former.as_ref() != Some(&exclusion) => {
            Some(AdminAct::Excluded { candidate: candidate(), exclusion })
        }
        (Some(exclusion), None) => {
            Some(AdminAct::Included { candidate: candidate(), ended: has_passed(Some(exclusion.until), wall) })
        }
        _ => None,
    };
    plan.actions.extend(act.map(|act| event(act, acts.asked_by.as_ref())));
    if let Some(malformed) = acts.malformed().filter(|_| *former != now).cloned() {
        plan.act(Action::Event(Event::MalformedAct { malformed, candidate: Some(candidate()) }));
    }
    if let Some(exclusion) = exclusion(&now) {
        set_end(exclusion.until, plan);
    }
    member.reported.exclusion = now;
}

/// The event for an act. It omits who asked if the act ended because its time has passed.
fn event(act: AdminAct, asked_by: Option<&String>) -> Action {
    let asked_by = asked_by.filter(|_| !act.has_ended()).cloned();
    Action::Event(Event::Act { act, asked_by })
}

fn has_passed(end: Option<WireTime>, wall: WireTime) -> bool {
    end.is_some_and(|end| end <= wall)
}

fn set_end(end: WireTime, plan: &mut Plan) {
    let now = plan.now;
    plan.wake_at(Timer::ActEnd, now.moment.after(now.wall.until(end)));
}
