//! The preference of a replica in direct mode, as a number that the program supplies.
//!
//! The library compares the keys, so that all replicas order them in the same way, whatever the version of the program.
//! If each program supplied a comparison, replicas that disagree could take the Lease from each other forever.

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::watch;

use crate::leadership::latest;

mod istio;

pub use istio::{DefaultRevision, follow_istio_key, istio_key};

/// The group of replicas that name no group; see [`lease_of_group`].
const DEFAULT_GROUP: &str = "default";

/// The preference of a replica in direct mode: a number, or a channel that may change. The channel holds `None` while
/// the key is unknown.
///
/// The Lease records the holder's key (`hustings.io/key`). A replica with a strictly higher key asks the holder to hand
/// over. A replica does not ask while its key is unknown.
#[derive(Clone, Debug)]
pub struct Key(KeySource);

#[derive(Clone, Debug)]
enum KeySource {
    Constant(Option<i64>),
    Watched(watch::Receiver<Option<i64>>),
}

/// Returns the name of the Lease of a group of replicas that elects its own leader, such as a revision: `NAME-GROUP`.
/// An empty group means the group `default`. Such an election needs no keys.
///
/// ```
/// use hustings_client::lease_of_group;
///
/// assert_eq!(lease_of_group("gateway", "canary"), "gateway-canary");
/// assert_eq!(lease_of_group("gateway", ""), lease_of_group("gateway", "default"));
/// ```
pub fn lease_of_group(name: &str, group: &str) -> String {
    let group = if group.is_empty() { DEFAULT_GROUP } else { group };
    format!("{name}-{group}")
}

impl Key {
    /// The current key.
    pub(crate) fn current(&self) -> Option<i64> {
        match &self.0 {
            KeySource::Constant(key) => *key,
            KeySource::Watched(receiver) => *receiver.borrow(),
        }
    }

    /// The key at the time of this call and then each change; nothing for a constant key. After the source is gone, the
    /// last key stays in force.
    pub(crate) fn changes(&self) -> BoxStream<'static, Option<i64>> {
        let KeySource::Watched(receiver) = &self.0 else { return stream::pending().boxed() };
        latest(receiver.clone()).chain(stream::pending()).boxed()
    }
}

impl Default for Key {
    fn default() -> Self {
        Self(KeySource::Constant(None))
    }
}

impl From<i64> for Key {
    fn from(key: i64) -> Self {
        Self(KeySource::Constant(Some(key)))
    }
}

impl From<Option<i64>> for Key {
    fn from(key: Option<i64>) -> Self {
        Self(KeySource::Constant(key))
    }
}

impl From<watch::Receiver<Option<i64>>> for Key {
    fn from(receiver: watch::Receiver<Option<i64>>) -> Self {
        Self(KeySource::Watched(receiver))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_watched_key_is_reported_at_each_change_and_stays_when_its_source_is_gone() {
        let (sender, receiver) = watch::channel(None);
        let key = Key::from(receiver);
        let mut changes = key.changes();
        assert_eq!((key.current(), changes.next().await), (None, Some(None)));
        sender.send_replace(Some(3));
        assert_eq!((key.current(), changes.next().await), (Some(3), Some(Some(3))));
        drop(sender);
        assert_eq!((key.current(), changes.next().now_or_never()), (Some(3), None));
    }

    #[test]
    fn a_key_that_is_unknown_or_constant_stays() {
        assert_eq!((Key::from(Some(3)).current(), Key::from(None).current()), (Some(3), None));
    }

    #[test]
    fn a_group_has_a_lease_of_its_own_and_no_group_is_the_default_group() {
        let leases = ["canary", "", "default"].map(|group| lease_of_group("gateway", group));
        assert_eq!(leases, ["gateway-canary", "gateway-default", "gateway-default"]);
    }
}
