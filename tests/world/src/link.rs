//! What lies between one process and the API server: it can be frozen, cut, or gone for good.

use std::sync::Arc;

use tokio::sync::watch;

/// The state of a link. Clones are the same link.
#[derive(Clone)]
pub struct Link(Arc<watch::Sender<State>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    is_frozen: bool,
    is_cut: bool,
    is_dead: bool,
}

impl Default for Link {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(State::default())))
    }
}

impl Link {
    /// The process stands still: it sends nothing, and what arrives waits.
    pub fn freeze(&self) {
        self.0.send_modify(|state| state.is_frozen = true);
    }

    /// The process goes on.
    pub fn thaw(&self) {
        self.0.send_modify(|state| state.is_frozen = false);
    }

    /// Nothing gets through in either direction.
    pub fn cut(&self) {
        self.0.send_modify(|state| state.is_cut = true);
    }

    /// What waited gets through.
    pub fn heal(&self) {
        self.0.send_modify(|state| state.is_cut = false);
    }

    /// The process is dead. What it has sent may still arrive, and nobody hears the answer.
    pub fn kill(&self) {
        self.0.send_modify(|state| state.is_dead = true);
    }

    /// Whether the process runs, and could ask something of itself right now.
    pub fn is_awake(&self) -> bool {
        let state = *self.0.borrow();
        !state.is_frozen && !state.is_dead
    }

    /// Whether the process is frozen.
    pub fn is_frozen(&self) -> bool {
        self.0.borrow().is_frozen
    }

    /// Whether nothing gets through.
    pub fn is_cut(&self) -> bool {
        self.0.borrow().is_cut
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
        // The sender lives as long as this link.
        drop(self.0.subscribe().wait_for(condition).await);
    }
}
