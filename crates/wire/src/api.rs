//! The objects on the wire: LeaseCandidate, Lease, and the names that Hustings writes into both.
//!
//! Reading never fails: see [`ReadLease`], [`ReadCandidate`] and [`ReadNativeCandidate`]. Writes are merge patches that
//! contain only the fields that the writer owns.

pub mod names;

mod acts;
mod candidate;
mod candidate_writes;
#[cfg(feature = "crd")]
mod crd;
mod lease;
mod native;
mod object;
mod pod_label;
mod reading;
mod timestamp;

pub use acts::{exclusion_patch, pin_text};
pub use candidate::{LeaseCandidateStatus, ReadCandidate};
pub use candidate_writes::{candidate_patch, new_candidate};
#[cfg(feature = "crd")]
pub use crd::{LeaseCandidate, LeaseCandidateSpec, crd};
pub use lease::{ReadLease, empty_lease, lease_patch};
pub use native::{NativeVersion, ReadNativeCandidate};
pub use object::ObjectParts;
pub use pod_label::{read_leader_label, read_pod_label};
pub use timestamp::MicroTime;
