//! Limits how many requests of one process are under way.
//!
//! The rule that must hold: half of the turns are reserved for holders, however many other requests there are. Holders
//! may use the other half as well, and wait for it in order of arrival.

use hustings_core::model::{Purpose, Request};
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many requests may be under way. Each has its own connection: without the limit, a thousand electors that start
/// together would open a thousand connections. If a request takes 100 ms, half of the turns suffice to renew 700 Leases
/// in time, and all of them for more than a thousand.
const AT_A_TIME: usize = 64;

/// How many of these may be for anything but a running term. An overloaded server can answer few requests soon, or many
/// late.
const WITHOUT_LEASE_AT_A_TIME: usize = AT_A_TIME / 2;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnKind {
    /// A running term, or the end of one.
    Term,
    /// Everything else.
    Other,
}

impl TurnKind {
    /// The kind of this request. Electors take up and claim, and controllers write, under `Other`.
    pub(super) fn of(request: &Request) -> Self {
        match request {
            Request::WriteLease { write, .. } => match write.purpose {
                Purpose::Renew | Purpose::HandOver | Purpose::Release => Self::Term,
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

/// The turns of one process.
pub(super) struct Turns {
    all: Semaphore,
    others: Semaphore,
}

/// Permits one request until it is dropped.
pub(super) struct Turn<'a> {
    _of_all: Option<SemaphorePermit<'a>>,
    _of_others: Option<SemaphorePermit<'a>>,
}

impl Turns {
    /// Waits for a turn. A caller that stops waiting leaves the queue.
    pub(super) async fn take(&self, kind: TurnKind) -> Turn<'_> {
        // `acquire` fails only on a closed semaphore, and these are never closed.
        let of_others = match kind {
            TurnKind::Term => None,
            TurnKind::Other => self.others.acquire().await.ok(),
        };
        Turn { _of_all: self.all.acquire().await.ok(), _of_others: of_others }
    }
}

impl Default for Turns {
    fn default() -> Self {
        Self { all: Semaphore::new(AT_A_TIME), others: Semaphore::new(WITHOUT_LEASE_AT_A_TIME) }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use hustings_core::model::{LeaseRecord, LeaseWrite};

    use super::*;

    #[test]
    fn renewals_and_the_end_of_a_term_have_reserved_turns() {
        let record = LeaseRecord::default();
        let kind = |purpose| TurnKind::of(&Request::write_lease("l", LeaseWrite::new(purpose, &record)));
        for (purpose, expected) in [
            (Purpose::Renew, TurnKind::Term),
            (Purpose::HandOver, TurnKind::Term),
            (Purpose::Release, TurnKind::Term),
            (Purpose::TakeUp, TurnKind::Other),
            (Purpose::Claim, TurnKind::Other),
        ] {
            assert_eq!(kind(purpose), expected, "{purpose:?}");
        }
        assert_eq!(TurnKind::of(&Request::read_lease("l")), TurnKind::Other);
    }

    #[test]
    fn a_bounded_number_of_requests_is_under_way() {
        let turns = Turns::default();
        let mut taken: Vec<_> = (0..AT_A_TIME).map(|_| turns.take(TurnKind::Term).now_or_never().unwrap()).collect();
        assert!(turns.take(TurnKind::Term).now_or_never().is_none());
        assert!(turns.take(TurnKind::Other).now_or_never().is_none());
        taken.pop();
        assert!(turns.take(TurnKind::Other).now_or_never().is_some());
    }

    #[test]
    fn a_term_does_not_wait_behind_a_thousand_nominations() {
        let turns = Turns::default();
        let mut nominations: Vec<_> = (0..1000).map(|_| Box::pin(turns.take(TurnKind::Other))).collect();
        let under_way: Vec<_> = nominations.iter_mut().filter_map(|turn| turn.as_mut().now_or_never()).collect();
        assert_eq!(under_way.len(), WITHOUT_LEASE_AT_A_TIME);
        let renewals = (0..AT_A_TIME).map_while(|_| turns.take(TurnKind::Term).now_or_never());
        assert_eq!(renewals.collect::<Vec<_>>().len(), AT_A_TIME - WITHOUT_LEASE_AT_A_TIME);
    }
}
