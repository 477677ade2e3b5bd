//! The preference of a replica in direct mode: a number that it gives, and never a verdict on two of them.
//!
//! The holder's key stands on the Lease (`hustings.io/key`), and a replica with a strictly higher one asks the holder to
//! hand over. Only the library compares keys, so that every replica orders them alike, whatever its version: a comparison
//! that each program brings along need not be an order, and two that disagree take the Lease from each other without end.
//! A key that is not known, or not known yet, is no key, and its replica takes the Lease from nobody.

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::watch;

/// The group of those that name none, as [`lease_of_group`] writes it.
const DEFAULT_GROUP: &str = "default";

/// Where a replica's key comes from: a number, or a source that may change, and that says `None` while it knows nothing.
#[derive(Clone, Debug)]
pub struct Key(Source);

#[derive(Clone, Debug)]
enum Source {
    Constant(Option<i64>),
    Watched(watch::Receiver<Option<i64>>),
}

/// Istio's order: a replica of the default revision beats every other, and otherwise a local control plane beats a remote
/// one. `None` while it is not known which revision is the default, so that a replica that has just started takes nothing.
///
/// ```
/// use hustings_client::keys::istio;
///
/// let worst_default = istio(Some(true), false);
/// let best_other = istio(Some(false), true);
/// assert!(worst_default > best_other && best_other > istio(Some(false), false));
/// assert_eq!(istio(None, true), None);
/// ```
pub fn istio(is_default_revision: Option<bool>, is_local: bool) -> Option<i64> {
    is_default_revision.map(|is_default| i64::from(is_default) * 2 + i64::from(is_local))
}

/// The Lease of one group of replicas, a revision say, which elects among its own: `NAME-GROUP`. Those without a group are
/// those of the group `default`, so that both spellings name one Lease. Such an election needs no keys.
///
/// ```
/// use hustings_client::keys::lease_of_group;
///
/// assert_eq!(lease_of_group("gateway", "canary"), "gateway-canary");
/// assert_eq!(lease_of_group("gateway", ""), lease_of_group("gateway", "default"));
/// ```
pub fn lease_of_group(name: &str, group: &str) -> String {
    let group = if group.is_empty() { DEFAULT_GROUP } else { group };
    format!("{name}-{group}")
}

impl Key {
    /// The key as it is now.
    pub(crate) fn current(&self) -> Option<i64> {
        match &self.0 {
            Source::Constant(key) => *key,
            Source::Watched(receiver) => *receiver.borrow(),
        }
    }

    /// Each later key. A source that is gone leaves the last one standing.
    pub(crate) fn changes(&self) -> BoxStream<'static, Option<i64>> {
        let Source::Watched(receiver) = &self.0 else { return stream::pending().boxed() };
        let mut receiver = receiver.clone();
        // Whatever was missed before this is told.
        receiver.mark_changed();
        let changes = stream::unfold(receiver, |mut receiver| async move {
            receiver.changed().await.ok()?;
            let key = *receiver.borrow_and_update();
            Some((key, receiver))
        });
        changes.chain(stream::pending()).boxed()
    }
}

impl Default for Key {
    fn default() -> Self {
        Self(Source::Constant(None))
    }
}

impl From<i64> for Key {
    fn from(key: i64) -> Self {
        Self(Source::Constant(Some(key)))
    }
}

impl From<Option<i64>> for Key {
    fn from(key: Option<i64>) -> Self {
        Self(Source::Constant(key))
    }
}

impl From<watch::Receiver<Option<i64>>> for Key {
    fn from(receiver: watch::Receiver<Option<i64>>) -> Self {
        Self(Source::Watched(receiver))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_watched_key_is_told_with_each_change_and_stays_when_its_source_is_gone() {
        let (sender, receiver) = watch::channel(None);
        let key = Key::from(receiver);
        let mut changes = key.changes();
        assert_eq!((key.current(), changes.next().await), (None, Some(None)));
        sender.send_replace(Some(3));
        assert_eq!((key.current(), changes.next().await), (Some(3), Some(Some(3))));
        drop(sender);
        assert_eq!((key.current(), changes.next().now_or_never()), (Some(3), None));
    }
}
