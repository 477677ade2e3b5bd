//! Finds a smaller world that shows the same violation: less time, fewer Leases, processes and faults.

use std::time::{Duration, Instant};

use crate::world::{Report, Setup, simulate};

/// The smallest world found within `limit` that breaks the same invariant as `report`, the report of `setup`.
pub fn shrink(setup: Setup, report: Report, limit: Duration) -> (Setup, Report) {
    let Some(invariant) = invariant(&report) else { return (setup, report) };
    let mut shrinking = Shrinking { invariant, until: Instant::now() + limit, setup, report };
    shrinking.shorten();
    shrinking.drop_leases();
    shrinking.drop_process();
    shrinking.drop_faults();
    shrinking.shorten();
    (shrinking.setup, shrinking.report)
}

struct Shrinking {
    invariant: String,
    until: Instant,
    setup: Setup,
    report: Report,
}

impl Shrinking {
    /// Adopts `setup` if its world breaks the same invariant. Returns whether it does.
    fn try_out(&mut self, setup: Setup) -> bool {
        if Instant::now() >= self.until || setup == self.setup {
            return false;
        }
        let report = simulate(setup.clone());
        let breaks = invariant(&report).as_ref() == Some(&self.invariant);
        if breaks {
            (self.setup, self.report) = (setup, report);
        }
        breaks
    }

    fn shorten(&mut self) {
        let lasts = self.setup.lasts.min(Duration::from_secs(self.report.lasted.as_secs() + 1));
        self.try_out(Setup { lasts, ..self.setup.clone() });
        while self.setup.lasts > Duration::from_mins(2) {
            let lasts = self.setup.lasts / 2;
            if !self.try_out(Setup { lasts, ..self.setup.clone() }) {
                return;
            }
        }
    }

    fn drop_leases(&mut self) {
        for lease in self.setup.leases.clone() {
            let leases = vec![lease];
            if self.try_out(Setup { leases, ..self.setup.clone() }) {
                return;
            }
        }
    }

    fn drop_process(&mut self) {
        if self.setup.processes > 2 {
            self.try_out(Setup { processes: self.setup.processes - 1, ..self.setup.clone() });
        }
    }

    /// Drops groups of faults, and then smaller and smaller groups.
    fn drop_faults(&mut self) {
        let all = |shrinking: &Self| -> Vec<u64> {
            (0..shrinking.report.numbers).filter(|number| !shrinking.setup.without.contains(number)).collect()
        };
        let mut size = all(self).len().div_ceil(2);
        while size > 0 && Instant::now() < self.until {
            for part in all(self).chunks(size) {
                let mut without = self.setup.without.clone();
                without.extend(part);
                self.try_out(Setup { without, ..self.setup.clone() });
            }
            size /= 2;
        }
    }
}

/// The invariant that was broken first.
fn invariant(report: &Report) -> Option<String> {
    report.violations.first().and_then(|violation| violation.split(':').next()).map(str::to_owned)
}
