//! Whether a second controller elects for the same Lease: another installation, or one without leader election.
//!
//! Two controllers are safe, but each may undo the other's writes. The leading controller recognises the other one by
//! pings and statuses that it did not write itself. A former leader may still send a few of them while a new one begins.
//! So only such writes that are half a minute apart count.

use std::time::Duration;

use super::plan::Plan;
use super::{Action, Config, Election, Event};
use crate::model::Moment;

/// How far apart two writes by a second controller must be: longer than the controllers' own Lease and a request last.
const APART: Duration = Duration::from_secs(30);

/// The writes by a second controller while this one decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SecondController {
    decided_at: Option<Moment>,
    /// The first and the newest such write.
    writes: Option<(Moment, Moment)>,
    is_reported: bool,
}

impl SecondController {
    /// This controller decides. If it did not for a while, another one was the leader, and rightly wrote.
    pub(super) fn observe_decision(&mut self, now: Moment, config: &Config) {
        if !self.decides(now, config) {
            *self = Self::default();
        }
        self.decided_at = Some(now);
    }

    /// A version shows a ping or a status that this controller did not write.
    pub(super) fn observe_write(&mut self, now: Moment, config: &Config) {
        if !self.decides(now, config) {
            return;
        }
        let first =
            self.writes.filter(|(_, newest)| now < newest.after(config.validity)).map_or(now, |(first, _)| first);
        self.writes = Some((first, now));
    }

    /// Whether there is a second controller. It may write nothing for long, so it counts for a validity.
    pub(super) fn is_active(&self, now: Moment, config: &Config) -> bool {
        self.writes.is_some_and(|(first, newest)| newest >= first.after(APART) && now < newest.after(config.validity))
    }

    /// Whether this controller decides about the Lease, which it does at the latest after each requeue interval.
    fn decides(&self, now: Moment, config: &Config) -> bool {
        self.decided_at.is_some_and(|at| now < at.after(config.decides_for()))
    }
}

impl Election {
    /// Publishes one event about a second controller.
    pub(super) fn report_second_controller(&mut self, plan: &mut Plan) {
        let is_active = self.has_second_controller(plan.now.moment);
        let was_reported = std::mem::replace(&mut self.second_controller.is_reported, is_active);
        if is_active && !was_reported {
            plan.act(Action::Event(Event::SecondController));
        }
    }
}
