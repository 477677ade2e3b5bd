//! The page, the Leases whose views may have changed, and when to publish them.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::controller::key::LeaseKey;
use crate::serve::page::Page;

/// How long to collect changes. A hand-over consists of several changes within milliseconds.
const COLLECT: Duration = Duration::from_millis(100);

/// The page, and the Leases whose views may have changed.
pub(super) struct Publication {
    pub(super) page: Page,
    /// The name of this controller.
    pub(super) identity: String,
    pub(super) changed: BTreeSet<LeaseKey>,
    pub(super) due: Option<Instant>,
}

impl Publication {
    pub(super) fn new((identity, page): (String, Page)) -> Self {
        Self { page, identity, changed: BTreeSet::new(), due: None }
    }

    pub(super) fn note(&mut self, key: &LeaseKey) {
        if self.changed.insert(key.clone()) {
            self.due.get_or_insert_with(|| Instant::now() + COLLECT);
        }
    }

    /// Waits until it is time to publish changes. This function is cancel safe.
    pub(super) async fn due(&self) {
        match self.due {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }
}
