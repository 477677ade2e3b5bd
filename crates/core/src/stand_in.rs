//! Which controller elects native candidates: Kubernetes' own, or Hustings in its place.
//!
//! Kubernetes' controller, a part of each kube-apiserver, elects while it holds the Lease `leader-election-controller`.
//! Two controllers that elect would undo each other's writes. So Hustings elects only in these cases:
//!
//! - No program holds that Lease, as on a server without the feature gate. Hustings then leaves the Lease alone.
//! - The stand-in is on, and the leading Hustings controller holds the Lease in place of Kubernetes' controller. It
//!   overwrites the live holder once. It elects as soon as that holder must have noticed the loss.
//!
//! Like an election, this is pure: the caller reads the Lease periodically, and carries out each [`StandInDecision`].

use std::sync::Arc;
use std::time::Duration;

use crate::model::{LeaseRecord, Moment, Now, Observed, WireTime};

/// The duration of the Lease while Hustings holds it, in seconds. Kubernetes' controller takes over that long after
/// Hustings has stopped.
pub const LEASE_DURATION_SECONDS: u32 = 60;

/// For how long a write entitles this process to elect, counted from its sending.
const RENEW_DEADLINE: Duration = Duration::from_secs(45);

/// How often the caller reads the Lease, and the holder renews it.
pub const PERIOD: Duration = Duration::from_secs(2);

/// How long Hustings waits before it elects: the lease duration of Kubernetes' controller. A holder that fails to renew
/// stops after its renew deadline, which is shorter. The controller of another kube-apiserver takes a free or expired
/// Lease within this time, too.
pub const NOTICE: Duration = Duration::from_secs(15);

/// How long after taking the Lease Hustings waits before it takes the Lease from another program again.
const TAKE_PAUSE: Duration = Duration::from_mins(5);

/// The identity of a Hustings controller on that Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    /// The Lease by which the Hustings controllers elect their own leader, as `NAMESPACE/NAME`.
    pub group: Arc<str>,
    /// Its own name.
    pub identity: Arc<str>,
}

/// The Lease as a read or the answer to a write shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reading {
    /// The fields of every Lease.
    pub record: LeaseRecord,
    /// Annotation `hustings.io/stand-in`.
    pub mark: Option<String>,
}

/// The program that elects native candidates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NativeElector {
    /// No read has shown it yet, or the last read is too old.
    Unknown,
    /// The leading Hustings controller, because no program holds the Lease.
    Leader,
    /// This holder: Kubernetes' controller, another program, or a Hustings controller of another group.
    Other(Arc<str>),
    /// This holder, a Hustings controller of this group that stands in.
    StandIn(Arc<str>),
}

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandInDecision {
    /// The write to send.
    pub write: Option<StandInWrite>,
    /// Whether this process may elect native candidates.
    pub elects: bool,
    /// The program that elects them.
    pub elector: NativeElector,
}

/// A write of the Lease by the leading Hustings controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandInWrite {
    /// The version on which the write is conditional.
    pub resource_version: u64,
    /// `spec.renewTime`.
    pub renew_time: WireTime,
    /// The start of a new term: `spec.acquireTime` is the renew time, `spec.leaseTransitions` is this number, and
    /// holder, duration and mark are those of this controller.
    pub takes: Option<u32>,
}

/// What one controller knows about that Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StandIn {
    controller: Controller,
    stands_in: bool,
    leads: bool,
    seen: SeenLease,
    read_at: Option<Moment>,
    /// While a controller of this group holds the Lease: the latest time at which the previous holder notices that.
    noticed_at: Option<Moment>,
    /// Until when the last write entitles this process to elect.
    entitled_until: Option<Moment>,
    taken_at: Option<Moment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SeenLease {
    Nothing,
    /// The Lease is missing or names no holder.
    Free {
        since: Moment,
    },
    Held {
        lease: Box<Observed>,
        mark: Option<String>,
        /// The holder has renewed since it was first observed.
        renewed: bool,
    },
}

impl StandIn {
    /// The state of a controller that has observed nothing. `stands_in` is whether it takes the place of Kubernetes'
    /// controller while it leads.
    pub const fn new(controller: Controller, stands_in: bool) -> Self {
        Self {
            controller,
            stands_in,
            leads: false,
            seen: SeenLease::Nothing,
            read_at: None,
            noticed_at: None,
            entitled_until: None,
            taken_at: None,
        }
    }

    /// Sets whether this process leads the Hustings controllers of its group.
    pub const fn set_leading(&mut self, leads: bool) {
        self.leads = leads;
        if !leads {
            self.entitled_until = None;
        }
    }

    /// Records the result of a live read; `None` if the Lease is missing.
    pub fn observe(&mut self, now: Moment, reading: Option<Reading>) {
        // While the API server did not answer, no holder could renew. So a silence that began before proves nothing.
        let is_gap = self.is_outdated(now);
        self.read_at = Some(now);
        let seen = std::mem::replace(&mut self.seen, SeenLease::Nothing);
        self.seen = match (reading.filter(|reading| reading.record.holder.is_some()), seen) {
            (None, SeenLease::Free { since }) if !is_gap => SeenLease::Free { since },
            (None, _) => SeenLease::Free { since: now },
            (Some(Reading { record, mark }), SeenLease::Held { mut lease, renewed, .. })
                if !is_gap && lease.record().holder == record.holder =>
            {
                let changed = lease.record().renew_time != record.renew_time;
                lease.observe(record, now);
                SeenLease::Held { lease, mark, renewed: renewed || changed }
            }
            (Some(Reading { record, mark }), _) => {
                SeenLease::Held { lease: Box::new(Observed::first(record, now)), mark, renewed: false }
            }
        };
        if matches!(self.elector(now), NativeElector::StandIn(_)) {
            let noticed_at = if self.has_been_held_for_long() { now } else { now.after(NOTICE) };
            self.noticed_at.get_or_insert(noticed_at);
        } else {
            (self.noticed_at, self.entitled_until) = (None, None);
        }
    }

    /// Records the answer to a write that was sent at `sent`.
    pub fn written(&mut self, sent: Moment, now: Moment, reading: Reading) {
        let held = self.holds();
        self.observe(now, Some(reading));
        if self.holds() {
            if !held {
                self.taken_at = Some(now);
            }
            self.entitled_until = Some(sent.after(RENEW_DEADLINE));
        }
    }

    /// Decides what to do now.
    pub fn decide(&self, now: Now) -> StandInDecision {
        let elector = self.elector(now.moment);
        let write = self.write(now, &elector).filter(|_| self.leads && self.stands_in);
        let elects = self.leads
            && match elector {
                NativeElector::Leader => true,
                NativeElector::StandIn(_) if self.holds() => {
                    self.entitled_until.is_some_and(|until| now.moment < until)
                        && self.noticed_at.is_some_and(|at| now.moment >= at)
                }
                NativeElector::Unknown | NativeElector::Other(_) | NativeElector::StandIn(_) => false,
            };
        StandInDecision { write, elects, elector }
    }

    /// Whether the last read is too old.
    fn is_outdated(&self, now: Moment) -> bool {
        self.read_at.is_none_or(|at| now >= at.after(NOTICE))
    }

    fn elector(&self, now: Moment) -> NativeElector {
        if self.is_outdated(now) {
            return NativeElector::Unknown;
        }
        match &self.seen {
            SeenLease::Nothing => NativeElector::Unknown,
            // Kubernetes' controller may be about to begin.
            SeenLease::Free { since } if now < since.after(NOTICE) => NativeElector::Unknown,
            SeenLease::Free { .. } => NativeElector::Leader,
            SeenLease::Held { lease, .. } if now >= lease.expires_at().after(NOTICE) => NativeElector::Leader,
            SeenLease::Held { lease, .. } if lease.is_expired(now) => NativeElector::Unknown,
            SeenLease::Held { lease, mark, .. } => {
                let holder: Arc<str> = lease.record().holder.as_deref().unwrap_or_default().into();
                let controller =
                    Controller { group: Arc::clone(&self.controller.group), identity: Arc::clone(&holder) };
                // Other programs keep the mark when they take the Lease, so it counts for its own holder only.
                if mark.as_deref() == Some(&*controller.mark()) {
                    NativeElector::StandIn(holder)
                } else {
                    NativeElector::Other(holder)
                }
            }
        }
    }

    /// Whether the holder renewed the Lease at least [`NOTICE`] after it took it, by its own clock, which wrote both
    /// times. From this, a controller that has just started knows that Kubernetes' controller has noticed the loss.
    fn has_been_held_for_long(&self) -> bool {
        let SeenLease::Held { lease, .. } = &self.seen else { return false };
        let LeaseRecord { acquire_time, renew_time, .. } = lease.record();
        acquire_time.zip(*renew_time).is_some_and(|(taken, renewed)| taken.until(renewed) >= NOTICE)
    }

    fn write(&self, now: Now, elector: &NativeElector) -> Option<StandInWrite> {
        let SeenLease::Held { lease, mark, renewed } = &self.seen else { return None };
        let record = lease.record();
        let takes = match elector {
            NativeElector::Unknown | NativeElector::Leader => return None,
            NativeElector::StandIn(_) if self.holds() => None,
            // Its holder no longer leads the controllers.
            NativeElector::StandIn(_) => Some(record.next_transitions()),
            NativeElector::Other(holder) => {
                let pauses = self.taken_at.is_some_and(|at| now.moment < at.after(TAKE_PAUSE));
                let stands_in = mark.as_ref().is_some_and(|mark| mark.ends_with(&format!(" {holder}")));
                if !renewed || pauses || stands_in {
                    return None;
                }
                Some(record.next_transitions())
            }
        };
        let renew_time = now.wall.later_than(record.renew_time);
        Some(StandInWrite { resource_version: record.resource_version, renew_time, takes })
    }

    fn holds(&self) -> bool {
        let SeenLease::Held { lease, mark, .. } = &self.seen else { return false };
        lease.record().holder.as_deref() == Some(&*self.controller.identity)
            && mark.as_deref() == Some(&*self.controller.mark())
    }
}

impl Controller {
    /// The annotation `hustings.io/stand-in` that this controller writes.
    pub fn mark(&self) -> String {
        format!("{} {}", self.group, self.identity)
    }
}

#[cfg(test)]
mod tests;
