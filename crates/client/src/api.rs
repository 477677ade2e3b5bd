//! The objects on the wire: LeaseCandidate, Lease, and the names that Hustings writes into both.
//!
//! Reading never fails (see [`ReadLease`] and [`ReadCandidate`]). Writing uses merge patches with only the fields that
//! the writer owns.

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

/// Returns the CRD of LeaseCandidate. Install it once in the cluster. It requires Kubernetes 1.34.
pub fn crd() -> CustomResourceDefinition {
    LeaseCandidate::crd()
}
