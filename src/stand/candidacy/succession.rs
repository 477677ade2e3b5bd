//! The electors of a process that stand one after another, and the routes that outlast each of them.

use axum::Router;
use hustings_client::Leadership;
use tokio::sync::watch;

use super::range;
use super::snapshot::{self, Snapshot};

/// The electors of a process, one after another. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Succession {
    /// The leadership of the current elector, or of the last one.
    current: watch::Sender<Option<Leadership>>,
    /// The leadership of the last elector that led. It has the time range.
    led: watch::Sender<Option<Leadership>>,
}

impl Succession {
    /// Reports that an elector stands from now on.
    pub(crate) fn stands(&self, leadership: Leadership) {
        self.current.send_replace(Some(leadership));
    }

    /// Reports that a term of the current elector has begun.
    pub(crate) fn leads(&self, leadership: Leadership) {
        self.led.send_replace(Some(leadership));
    }

    /// A snapshot of the current elector, or of the last one; `None` before the first.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        self.current.borrow().as_ref().map(Snapshot::now)
    }

    /// The leadership of the current elector, as soon as there is one.
    #[cfg(test)]
    pub(crate) async fn current(&self) -> Leadership {
        let mut current = self.current.subscribe();
        let leadership = current.wait_for(Option::is_some).await.unwrap().clone();
        leadership.unwrap()
    }

    /// The route `/isleader`.
    pub(crate) fn is_leader(&self) -> Router {
        let electors = self.clone();
        snapshot::routes(move || electors.snapshot())
    }

    /// The routes of the time range. It lasts until a later elector has a term.
    pub(crate) fn range(&self) -> Router {
        let led = self.led.clone();
        range::routes(move || led.borrow().clone())
    }
}
