//! What may happen in a world, and when time may pass.

use hustings_core::elector::Action;
use hustings_core::model::LeaseRecord;

use super::World;
use crate::edit::Edit;
use crate::process::Flight;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// True time passes.
    Tick,
    /// A process notices that its deadline has come.
    Wake(usize),
    /// A watch shows the newest version, or that the Lease is missing.
    Show(usize),
    /// A late watch shows the previous version.
    ShowOld(usize),
    /// The server executes a request, or the work of a term ends.
    Execute(usize, usize),
    /// An answer arrives.
    Answer(usize, usize),
    /// A request is lost.
    Lose(usize, usize),
    /// A write of a dead process succeeds, or is lost.
    Orphan,
    /// A process dies, and another one starts in its place.
    Crash(usize),
    /// A process is asked to stop.
    Stop(usize),
    /// A person edits the Lease.
    Edit(Edit),
    /// A person deletes the Lease.
    Delete,
}

const EDITS: [Edit; 8] = [
    Edit::Holder(None),
    Edit::Holder(Some("stranger")),
    Edit::Duration(1),
    Edit::Duration(4),
    Edit::NoSession,
    Edit::GarbledSession,
    Edit::Label,
    Edit::LateRelease,
];

impl World {
    pub(super) fn what_may_happen(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let lease = self.lease();
        for (who, process) in self.processes.iter().enumerate() {
            for index in 0..process.flights.len() {
                match &process.flights[index] {
                    Flight::Answered { .. } => steps.push(Step::Answer(who, index)),
                    Flight::Sent { action, .. } => {
                        steps.push(Step::Execute(who, index));
                        if self.scenario.loses && !matches!(action, Action::StopWork) {
                            steps.push(Step::Lose(who, index));
                        }
                    }
                }
            }
            if process.is_due(self.ticks) {
                steps.push(Step::Wake(who));
            }
            if process.has_news(lease) {
                steps.push(Step::Show(who));
                if self.scenario.stale_watch && self.previous.is_some() && process.has_news(self.previous.as_ref()) {
                    steps.push(Step::ShowOld(who));
                }
            }
            if self.left.crashes > 0 {
                steps.push(Step::Crash(who));
            }
            if self.left.stops > 0 {
                steps.push(Step::Stop(who));
            }
        }
        if !self.orphans.is_empty() {
            steps.push(Step::Orphan);
        }
        if self.left.edits > 0 {
            steps.extend(EDITS.into_iter().filter(|edit| self.edited(*edit).is_some()).map(Step::Edit));
        }
        // The premise: every process that may act on the Lease has observed it held.
        if self.left.deletions > 0 && lease.is_some() && self.processes.iter().all(|process| process.saw_held) {
            steps.push(Step::Delete);
        }
        if self.may_tick() {
            steps.push(Step::Tick);
        }
        steps
    }

    fn may_tick(&self) -> bool {
        let are_ready = self.processes.iter().all(|process| {
            let is_waited_for = |flight: &Flight| match self.scenario.longest_delay_ticks {
                Some(longest) => process.age_ticks(flight, self.ticks) >= longest,
                None => false,
            };
            let is_late = self.scenario.punctual && (process.is_due(self.ticks) || process.has_news(self.lease()));
            !is_late && !process.flights.iter().any(is_waited_for)
        });
        let flights = self.processes.iter().flat_map(|process| &process.flights);
        let late = flights.filter(|flight| flight.is_write_on_its_way()).count();
        let is_answer_late =
            self.scenario.answers_in_time && self.processes.iter().any(|process| !process.flights.is_empty());
        let is_orphan_late = self.scenario.punctual && !self.orphans.is_empty();
        are_ready && !is_answer_late && !is_orphan_late && late <= self.scenario.late_writes
    }

    pub(super) fn edited(&self, edit: Edit) -> Option<LeaseRecord> {
        edit.applied_to(self.lease()?)
    }
}
