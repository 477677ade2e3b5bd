//! Fencing: a mark on every write, so that the receiver can reject stale writes.
//!
//! A process may freeze between its last reading of the clock and the sending of a write, or the network may delay its
//! request. It then writes as if it still led. Only the receiver can prevent that. So each write names its term, and
//! the receiver rejects a term that is older than the newest one it knows. The receiver is an admission policy on the
//! API server (see `docs/fencing.md`), or any store that compares tokens.

use std::fmt;
use std::str::FromStr;

use kube::api::ObjectMeta;

use crate::api::names;
use crate::leadership::Term;

/// The mark of a term on an object: `NAMESPACE/LEASE/TOKEN`. It is a single value, so that a writer that holds several
/// Leases never combines one Lease with the token of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The Lease, as `namespace/name`.
    pub lease: String,
    /// The token of the term.
    pub token: u64,
}

/// A text that is not a fence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a fence: use NAMESPACE/LEASE/TOKEN, as in default/my-component/1234")]
pub struct InvalidFence(String);

impl Fence {
    /// Returns the term under which an object was last written; `None` if the object has no valid mark.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        metadata.annotations.as_ref()?.get(names::FENCE)?.parse().ok()
    }
}

impl Term {
    /// Marks an object as written under this term. Mark every write: the objects that you create, update or apply, and
    /// the metadata in patches.
    pub fn fence(&self, metadata: &mut ObjectMeta) {
        metadata.annotations.get_or_insert_default().insert(names::FENCE.to_owned(), self.fencing().to_string());
    }

    /// Returns the mark itself, the value of the annotation [`names::FENCE`].
    pub fn fencing(&self) -> Fence {
        Fence { lease: self.lease().to_owned(), token: self.token }
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.lease, self.token)
    }
}

impl FromStr for Fence {
    type Err = InvalidFence;

    fn from_str(text: &str) -> Result<Self, InvalidFence> {
        let read = || {
            let (lease, token) = text.rsplit_once('/')?;
            let (namespace, name) = lease.split_once('/')?;
            let is_named = !namespace.is_empty() && names::is_dns_subdomain(name);
            let token = token.parse().ok().filter(|_| is_named && token.bytes().all(|byte| byte.is_ascii_digit()))?;
            Some(Self { lease: lease.to_owned(), token })
        };
        read().ok_or_else(|| InvalidFence(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use hustings_core::elector::{Leading, Timing};
    use hustings_core::model::Moment;

    use super::*;
    use crate::leadership::leadership;
    use crate::testing::HandClock;

    #[test]
    fn the_mark_of_a_term_names_its_lease_and_token() {
        let clock = HandClock::at_seconds(100);
        let (mut publisher, leadership) = leadership(clock, "n/l".to_owned(), "a".to_owned(), Timing::default());
        let valid_until = Moment::from_micros(110_000_000);
        publisher.publish(Some(Leading { number: 1, token: 7, valid_until }), None);
        let mut metadata = ObjectMeta::default();
        assert_eq!(Fence::of(&metadata), None);
        leadership.term().unwrap().fence(&mut metadata);
        assert_eq!(metadata.annotations.as_ref().unwrap()["hustings.io/fence"], "n/l/7");
        assert_eq!(Fence::of(&metadata), Some(Fence { lease: "n/l".to_owned(), token: 7 }));
        publisher.publish(Some(Leading { number: 2, token: 9, valid_until }), None);
        leadership.term().unwrap().fence(&mut metadata);
        assert_eq!(Fence::of(&metadata).unwrap().token, 9, "the mark of a later term replaces that of an earlier one");
    }

    #[test]
    fn a_mark_that_does_not_parse_names_no_term() {
        for text in [
            "",
            "7",
            "l/7",
            "n/l/",
            "n/l/+7",
            "n/l/-7",
            "n/l/7 ",
            "/l/7",
            "n//7",
            "n/l/m/7",
            "n/l/99999999999999999999",
        ] {
            assert_eq!(text.parse::<Fence>(), Err(InvalidFence(text.to_owned())));
        }
        assert_eq!("n/l.m/18446744073709551615".parse::<Fence>().unwrap().token, u64::MAX);
    }
}
