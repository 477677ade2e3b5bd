//! Writes that belong to a term.
//!
//! The rules that must hold: a write begins only if it ends before the validity of its term. The elector gives a term
//! up only when no write is under way. A term that ends in any other way ends its writes.

use std::time::Duration;

use hustings_core::elector::Timing;
use hustings_core::model::Moment;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::handle::Leadership;
use super::term::Term;

/// A write that may be under way. The elector does not give the Lease up before this is dropped.
#[derive(Debug)]
pub(crate) struct TermWrite {
    until: Moment,
    /// Keeps the resources of the term, such as its lock.
    term: Term,
    _token: TaskTrackerToken,
}

impl Leadership {
    /// When a write that begins now and takes at most `deadline` must have ended. `None` if that is not before the end
    /// of the validity. Costs one atomic load and one reading of the clock.
    pub(crate) fn write_until(&self, deadline: Duration) -> Option<Moment> {
        // Load first, as in `remaining`. The one reading also starts the deadline, so that the write ends before the
        // validity.
        let valid_until = self.shared.valid_until();
        let until = self.shared.clock.now().after(deadline);
        (until < valid_until).then_some(until)
    }

    /// Begins a write that takes at most `deadline`, in the current term or in `within`. `None` means that the write
    /// must not begin.
    pub(crate) fn begin_write(&self, deadline: Duration, within: Option<&Term>) -> Option<TermWrite> {
        let until = self.write_until(deadline)?;
        let term = match within {
            Some(term) => term.clone(),
            None => self.views.borrow().term.clone()?,
        };
        // Take the token first, then check: either this check finds that the term has ended, or the end of the term
        // waits for this token. The validity may already belong to a later term. The end of this term was published
        // before that, so the check finds it.
        let token = term.inner.writes.token();
        let too_late = term.is_over() || term.inner.writes.is_closed();
        (!too_late).then(|| TermWrite { until, term, _token: token })
    }

    /// Waits until a write can begin. `None` means that it never can.
    pub(crate) async fn wait_for_write(&self, deadline: Duration, within: Option<&Term>) -> Option<TermWrite> {
        let (mut views, mut validity) = (self.views.clone(), self.validity.clone());
        loop {
            let has_ended = views.borrow_and_update().ended;
            let write = self.begin_write(deadline, within);
            if write.is_some() || has_ended || within.is_some_and(Term::is_over) {
                return write;
            }
            // An error means that the publisher is gone. It has published `ended` before.
            let _ = tokio::select! {
                changed = views.changed() => changed,
                changed = validity.changed() => changed,
            };
        }
    }

    /// The durations of the elector.
    pub(crate) fn timing(&self) -> &Timing {
        &self.shared.timing
    }
}

impl TermWrite {
    /// When the write must have ended, by the local clock.
    pub(crate) const fn until(&self) -> Moment {
        self.until
    }

    /// Whether the term is over.
    pub(crate) fn has_ended(&self) -> bool {
        self.term.is_over()
    }

    /// Completes when the term is over: the caller must drop the write.
    pub(crate) async fn ended(&self) {
        self.term.inner.ended.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;
    use hustings_core::elector::Leading;

    use super::*;
    use crate::leadership::{Publisher, leadership};
    use crate::testing::HandClock;

    const DEADLINE: Duration = Duration::from_secs(5);

    fn leading(token: u64, valid_until_seconds: i64) -> Leading {
        Leading { number: 1, token, valid_until: Moment::from_micros(valid_until_seconds * 1_000_000) }
    }

    fn handles() -> (Arc<HandClock>, Publisher, Leadership) {
        let clock = HandClock::at_seconds(100);
        let (mut publisher, leadership) =
            leadership(clock.clone(), "n/l".to_owned(), "a".to_owned(), Timing::default());
        publisher.publish(Some(leading(7, 110)), None);
        (clock, publisher, leadership)
    }

    #[test]
    fn a_write_begins_only_if_it_ends_before_the_validity() {
        let (clock, _publisher, leadership) = handles();
        assert_eq!(leadership.begin_write(DEADLINE, None).unwrap().until(), Moment::from_micros(105_000_000));
        clock.set_seconds(105);
        assert!(leadership.is_leader());
        assert!(leadership.begin_write(DEADLINE, None).is_none());
    }

    #[test]
    fn a_term_is_given_up_when_its_work_and_then_its_writes_are_over() {
        let (_clock, publisher, leadership) = handles();
        let work = leadership.term().unwrap().begin_work().unwrap();
        let mut stopped = Box::pin(publisher.stop_work());
        assert_eq!((&mut stopped).now_or_never(), None);
        let write = leadership.begin_write(DEADLINE, None);
        assert!(write.is_some(), "work may need to write in order to stop");
        drop(work);
        assert_eq!((&mut stopped).now_or_never(), None, "the write is under way");
        assert!(leadership.is_leader());
        assert!(leadership.begin_write(DEADLINE, None).is_none(), "the elector would not wait for it");
        assert!(!write.as_ref().unwrap().has_ended());
        drop(write);
        assert_eq!(stopped.now_or_never(), Some(()));
    }

    #[test]
    fn a_term_that_is_lost_ends_its_writes() {
        let (_clock, mut publisher, leadership) = handles();
        let write = leadership.begin_write(DEADLINE, None).unwrap();
        assert_eq!(write.ended().now_or_never(), None);
        publisher.publish(None, None);
        assert!(write.has_ended());
        assert_eq!(write.ended().now_or_never(), Some(()));
    }

    #[test]
    fn a_write_of_one_term_does_not_begin_in_the_next() {
        let (_clock, mut publisher, leadership) = handles();
        let first = leadership.term().unwrap();
        assert!(leadership.begin_write(DEADLINE, Some(&first)).is_some());
        publisher.publish(Some(leading(9, 110)), None);
        assert!(leadership.begin_write(DEADLINE, None).is_some());
        assert!(leadership.begin_write(DEADLINE, Some(&first)).is_none());
        let waiting = leadership.wait_for_write(DEADLINE, Some(&first)).now_or_never();
        assert!(matches!(waiting, Some(None)), "that is known at once");
    }

    #[tokio::test]
    async fn the_wait_for_a_write_ends_with_a_promotion_a_renewal_or_the_elector() {
        let (clock, mut publisher, leadership) = handles();
        clock.set_seconds(105);
        let mut renewed = Box::pin(leadership.wait_for_write(DEADLINE, None));
        assert!((&mut renewed).now_or_never().is_none());
        publisher.publish(Some(leading(7, 111)), None);
        assert!(renewed.now_or_never().flatten().is_some());

        publisher.publish(None, None);
        let mut promoted = Box::pin(leadership.wait_for_write(DEADLINE, None));
        let mut in_vain = Box::pin(leadership.wait_for_write(Duration::from_mins(1), None));
        assert!((&mut promoted).now_or_never().is_none());
        assert!((&mut in_vain).now_or_never().is_none());
        publisher.publish(Some(leading(9, 120)), None);
        assert!(promoted.now_or_never().flatten().is_some());
        assert!((&mut in_vain).now_or_never().is_none());
        drop(publisher);
        assert!(matches!(in_vain.now_or_never(), Some(None)));
    }
}
