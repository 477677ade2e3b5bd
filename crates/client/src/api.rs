//! The objects on the wire: LeaseCandidate, the view of a Lease, and the names that Hustings writes into both.
//!
//! Reading is total (see [`ReadLease`] and [`ReadCandidate`]); writing is by merge patches that touch only the fields
//! their writer owns.

pub mod names;

mod candidate;
mod lease;
mod reading;
mod timestamp;

pub use candidate::{LeaseCandidate, LeaseCandidateSpec, LeaseCandidateStatus, ReadCandidate, ack_patch, ping_patch};
pub use lease::{NativeFields, ReadLease, empty_lease, lease_patch};
pub use timestamp::MicroTime;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// The CRD of LeaseCandidate, to be installed in the cluster once. It needs Kubernetes 1.34.
pub fn crd() -> CustomResourceDefinition {
    LeaseCandidate::crd()
}
