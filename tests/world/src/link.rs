//! What lies between one process and the API server: it can be frozen, cut, or gone for good.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The state of a link. Clones are the same link.
#[derive(Clone, Default)]
pub struct Link(Arc<Shared>);

/// Who waits is woken in the order of waiting, and not at random as by a `tokio::sync::watch`.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    bell: Notify,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    is_frozen: bool,
    is_cut: bool,
    is_dead: bool,
}

impl Link {
    /// The process stands still: it sends nothing, and what arrives waits.
    pub fn freeze(&self) {
        self.change(|state| state.is_frozen = true);
    }

    /// The process goes on.
    pub fn thaw(&self) {
        self.change(|state| state.is_frozen = false);
    }

    /// Nothing gets through in either direction.
    pub fn cut(&self) {
        self.change(|state| state.is_cut = true);
    }

    /// What waited gets through.
    pub fn heal(&self) {
        self.change(|state| state.is_cut = false);
    }

    /// The process is dead. What it has sent may still arrive, and nobody hears the answer.
    pub fn kill(&self) {
        self.change(|state| state.is_dead = true);
    }

    /// Whether the process runs, and could ask something of itself right now.
    pub fn is_awake(&self) -> bool {
        let state = *self.state();
        !state.is_frozen && !state.is_dead
    }

    /// Whether the process is frozen.
    pub fn is_frozen(&self) -> bool {
        self.state().is_frozen
    }

    /// Whether nothing gets through.
    pub fn is_cut(&self) -> bool {
        self.state().is_cut
    }

    /// Waits until the process runs. Never ends for one that is dead.
    pub async fn thawed(&self) {
        self.until(|state| !state.is_frozen && !state.is_dead).await;
    }

    /// Waits until what was sent gets through.
    pub async fn open(&self) {
        self.until(|state| !state.is_cut).await;
    }

    async fn until(&self, condition: impl Fn(&State) -> bool) {
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
