//! Checks of each event against the invariants that concern several processes, and against what every caller of a core
//! relies on. Tests use them; they cost more time than the events themselves.

use std::collections::BTreeMap;

use hustings_core::elector::{Decision, Draw, Range};
use hustings_core::model::{LeaseRecord, Moment, Now, Request, Set, WireTime};

use crate::lab::Lab;
use crate::process::seconds;

/// What the checks have observed.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// The violations: electors that led at the same instant, and decisions or writes that break their contract.
    pub violations: Vec<String>,
    /// The latest wall-clock instant that each elector could own so far, by its session and the start of its range.
    pub owned: BTreeMap<(String, WireTime), WireTime>,
    /// A negative control: the electors count validity from the answer to a write, instead of from its sending.
    pub counts_from_answer: bool,
    wrongly_valid_until: BTreeMap<usize, Moment>,
}

impl Checks {
    /// Wall-clock instants that two processes could own, at any time so far.
    pub fn overlaps(&self) -> Vec<String> {
        let ranges: Vec<_> = self.owned.iter().map(|((session, start), until)| (session, start, until)).collect();
        let pairs =
            ranges.iter().enumerate().flat_map(|(index, one)| ranges[index + 1..].iter().map(move |two| (one, two)));
        let overlapping = pairs.filter(|(one, two)| one.0 != two.0 && one.1 < two.2 && two.1 < one.2);
        overlapping.map(|pair| format!("{pair:?}")).collect()
    }
}

impl Lab {
    /// Records which instants each process would own if it were asked now about all instants that its clock has shown.
    pub(crate) fn check_ranges(&mut self) {
        let Some(checks) = &mut self.checks else { return };
        for replica in &self.replicas {
            if replica.process.crashed || self.now_micros < replica.process.frozen_until {
                continue;
            }
            let Some(Range { start, end, .. }) = replica.range else { continue };
            let until = end.min(replica.process.local(self.now_micros).wall);
            if until > start {
                let owned = checks.owned.entry((replica.elector.config().session.clone(), start)).or_insert(until);
                *owned = until.max(*owned);
            }
        }
    }

    /// Records whether two processes lead now.
    pub(crate) fn check_leaders(&mut self) {
        let Some(checks) = &mut self.checks else { return };
        let now = self.now_micros;
        let leads = |index: usize| {
            let replica = &self.replicas[index];
            if checks.counts_from_answer && !replica.process.crashed {
                let until = checks.wrongly_valid_until.get(&index);
                return until.is_some_and(|until| replica.process.local(now).moment < *until);
            }
            replica.reads_leading(now)
        };
        let replicas =
            (0..self.replicas.len()).filter(|index| leads(*index)).map(|index| &self.replicas[index].process);
        let natives = self.natives.iter().filter(|native| native.reads_leading(now)).map(|native| &native.process);
        let leading: Vec<&str> = replicas.chain(natives).map(|process| process.label.as_str()).collect();
        if leading.len() > 1 {
            checks.violations.push(format!("{} {} lead", seconds(now), leading.join(" and ")));
        }
    }

    /// Checks a decision of an elector, which must come to rest with it.
    pub(crate) fn check_decision(&mut self, index: usize, now: Now, draw: Draw, decision: &Decision) {
        let Some(checks) = &mut self.checks else { return };
        let replica = &mut self.replicas[index];
        let again = replica.elector.decide(now, draw);
        let is_due = decision.deadline.is_some_and(|deadline| deadline <= now.moment);
        if !again.actions.is_empty() || again.leading != decision.leading || is_due {
            checks.violations.push(format!("{} repeats its decision: {again:?}", replica.process.label));
        }
        let (before, leading) = (replica.leading, decision.leading);
        if leading.map(|leading| leading.valid_until) != before.map(|before| before.valid_until) {
            let lasts = replica.elector.config().timing.renew_deadline();
            match (leading, before) {
                (Some(_), _) => _ = checks.wrongly_valid_until.insert(index, now.moment.after(lasts)),
                (None, Some(before)) if now.moment >= before.valid_until => {}
                (None, _) => _ = checks.wrongly_valid_until.remove(&index),
            }
        }
    }

    /// Checks that each write moves the renew time on. Otherwise the record would not show which attempt has succeeded,
    /// or that anything has changed.
    pub(crate) fn check_write(&mut self, request: &Request) {
        let Some(checks) = &mut self.checks else { return };
        if let Request::WriteLease { write, .. } = request
            && let (Some(LeaseRecord { renew_time: former, resource_version, .. }), Set::To(renew_time)) =
                (self.server.lease(), &write.renew_time)
            && *resource_version == write.resource_version
            && former.is_some_and(|former| former >= *renew_time)
        {
            checks.violations.push(format!("{write:?} goes back"));
        }
    }
}
