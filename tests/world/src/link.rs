//! The link between one process and the API server: it can be frozen, cut, or closed for good.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The state of a link. Clones are the same link.
#[derive(Clone, Default)]
pub struct Link(Arc<Shared>);

/// Wakes waiters in the order in which they began to wait. A `tokio::sync::watch` would wake them in random order.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    bell: Notify,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    /// When the process was frozen, if it is frozen now.
    frozen_at: Option<Instant>,
    /// How long it was frozen before.
    frozen_for: Duration,
    is_cut: bool,
    /// When the process died, if it did.
    died_at: Option<Instant>,
    /// A fault, and the number of dealings after which it hits the process.
    fuse: Option<(u32, ProcessFault)>,
}

/// A fault that can hit a process between any two of its dealings with the outside world: at any await whose completion
/// is visible from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessFault {
    /// As [`Link::kill`].
    Kill,
    /// As [`Link::freeze`].
    Freeze,
    /// As [`Link::cut`].
    Cut,
}

impl State {
    const fn is_dead(&self) -> bool {
        self.died_at.is_some()
    }

    fn kill(&mut self) {
        self.died_at.get_or_insert_with(Instant::now);
    }

    fn freeze(&mut self) {
        self.frozen_at.get_or_insert_with(Instant::now);
    }
}

impl Link {
    /// Freezes the process, like a suspension of its machine: it sends nothing, and arriving answers wait.
    pub fn freeze(&self) {
        self.change(State::freeze);
    }

    /// Lets the process run again.
    pub fn thaw(&self) {
        self.change(|state| {
            let frozen_for = state.frozen_at.take().map_or(Duration::ZERO, |at| at.elapsed());
            state.frozen_for += frozen_for;
        });
    }

    /// Cuts the link in both directions.
    pub fn cut(&self) {
        self.change(|state| state.is_cut = true);
    }

    /// Ends the cut. Requests and answers that waited continue.
    pub fn heal(&self) {
        self.change(|state| state.is_cut = false);
    }

    /// Kills the process. Requests that it has sent may still arrive, but their answers are lost.
    pub fn kill(&self) {
        self.change(State::kill);
    }

    /// Strikes the process after `dealings` further dealings with the outside world. A dealing is a request that it
    /// sends, an answer or a piece of a watch that it receives, or the end of a sleep.
    pub fn strike_after(&self, dealings: u32, fault: ProcessFault) {
        self.state().fuse = Some((dealings, fault));
    }

    /// Cancels a pending fault.
    pub fn spare(&self) {
        self.state().fuse = None;
    }

    /// Whether the process is dead.
    pub fn is_dead(&self) -> bool {
        self.state().is_dead()
    }

    /// When the process died, if it did.
    pub fn died_at(&self) -> Option<Instant> {
        self.state().died_at
    }

    /// Whether this is the same link.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Waits until the process is dead.
    pub async fn died(&self) {
        self.until(State::is_dead).await;
    }

    /// Whether the process runs, so that it could check now whether it leads.
    pub fn is_awake(&self) -> bool {
        let state = *self.state();
        state.frozen_at.is_none() && !state.is_dead()
    }

    /// Whether the process is frozen.
    pub fn is_frozen(&self) -> bool {
        self.state().frozen_at.is_some()
    }

    /// How long the process has been frozen in total.
    pub fn frozen_for(&self) -> Duration {
        let state = *self.state();
        state.frozen_for + state.frozen_at.map_or(Duration::ZERO, |at| at.elapsed())
    }

    /// Whether the link is cut.
    pub fn is_cut(&self) -> bool {
        self.state().is_cut
    }

    /// Waits until the process runs. Counts as one dealing. Never returns if the process is dead.
    pub async fn thawed(&self) {
        self.burn();
        self.until(|state| state.frozen_at.is_none() && !state.is_dead()).await;
    }

    /// Waits until the link is not cut.
    pub async fn open(&self) {
        self.until(|state| !state.is_cut).await;
    }

    fn burn(&self) {
        let fault = match &mut self.state().fuse {
            None => return,
            Some((0, fault)) => *fault,
            Some((left, _)) => {
                *left -= 1;
                return;
            }
        };
        self.change(|state| {
            state.fuse = None;
            match fault {
                ProcessFault::Kill => state.kill(),
                ProcessFault::Freeze => state.freeze(),
                ProcessFault::Cut => state.is_cut = true,
            }
        });
    }

    async fn until(&self, condition: impl Fn(&State) -> bool) {
        if condition(&self.state()) {
            return;
        }
        loop {
            let mut rung = std::pin::pin!(self.0.bell.notified());
            rung.as_mut().enable();
            if condition(&self.state()) {
                return;
            }
            rung.await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.0.bell.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_process_is_struck_exactly_after_the_given_number_of_dealings() {
        let link = Link::default();
        link.strike_after(2, ProcessFault::Kill);
        assert!(link.thawed().now_or_never().is_some());
        assert!(link.thawed().now_or_never().is_some());
        assert!(link.is_awake());
        assert!(link.thawed().now_or_never().is_none());
        assert!(link.is_dead() && link.died().now_or_never().is_some());
    }

    #[test]
    fn a_spared_process_is_not_struck() {
        let link = Link::default();
        link.strike_after(0, ProcessFault::Freeze);
        link.spare();
        assert!(link.thawed().now_or_never().is_some());
    }
}
