//! The store of Leases and candidates.
//!
//! Every operation is a [`Request`], a value. An elector relies on these properties of its store:
//!
//! - versions grow with every write of any object;
//! - a write takes effect only on the version or the uid that it names;
//! - a failure reports whether the write may still take effect;
//! - a watch may lag behind, but reports only versions that existed.
//!
//! [`ReferenceStore`] defines what each request does. In Kubernetes the store is [`Kubernetes`]; in tests it is
//! [`MemoryStore`](crate::testing::MemoryStore). One contract test holds both to the same behaviour.
//!
//! The other items of this module are for programs that send further requests, as Hustings' controller does.

pub(crate) mod answers;
pub(crate) mod connections;
mod contract;
pub(crate) mod failure;
pub(crate) mod kubernetes;
pub(crate) mod memory;
mod native;
pub(crate) mod shared;

pub use crate::watch::requests::WatchRequests;
pub use crate::watch::{Pauses, paced, watch_config};
pub use answers::{AnswerTooLong, WrongAnswer};
pub use contract::{Answer, Store, Versions, candidate_of, lease_of, reply_of};
pub use failure::{Failure, FailureCause, failure_of};
pub use hustings_core::model::{CandidatePatch, Nomination, Object, Pod, ReferenceStore, Request};
pub use kubernetes::{Kubernetes, is_missing, lacks_candidates, lease_client, reading_client};
pub use native::discover_native;
