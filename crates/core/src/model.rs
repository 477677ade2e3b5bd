//! The vocabulary that both cores share: versions, times, the content of a Lease and of its candidates, and the
//! requests to the store that keeps them.
//!
//! Every type here is total: it represents each possible content of an object. No object can stop an election.

mod acts;
mod candidate;
mod candidate_key;
mod ending;
mod expiry;
mod history;
mod hold;
mod lease;
mod lease_acts;
mod lease_view;
mod lease_write;
mod missing;
mod observed;
mod pod;
mod pod_label;
mod step;
mod store;
mod time;
mod unparsed;
mod version;

pub use crate::ranking::strategy::Strategy;
pub use acts::{Annotation, CandidateActs, Exclusion, LeaseActs, Malformed, Pin, Transfer};
pub use candidate::{CandidateRecord, CandidateState, Condition, Inadmissible, Pod, RecordedStatus, Standing, Truth};
pub use candidate_key::{CandidateKey, CandidateKind};
pub use ending::{Cause, Ending, Evidence, Unheld};
pub use expiry::{GIVEN_UP_SECONDS, LONGEST_LEASE_SECONDS, UNDECLARED_DURATION_SECONDS, drift_allowance, reliance};
pub use history::{History, PastTerm, RunningTerm};
pub use hold::Hold;
pub(crate) use lease::GRANT_DURATION_SECONDS;
pub use lease::{LeaseRecord, NativeFields, SessionMark, SessionStamp};
pub use lease_view::{LeaseView, Presence};
pub use lease_write::{LeaseWrite, Purpose, Set};
pub use missing::MissingLease;
pub use observed::Observed;
pub use pod::{ContainerEnd, ContainerKind, ContainerRecord, NodeRecord, PodRecord};
pub use pod_label::PodLabel;
pub use step::{LeaseStage, Step};
pub use store::{CandidatePatch, Nomination, Object, ObjectName, Outcome, ReferenceStore, Reply, Request};
pub use time::{Moment, Now, WireTime};
pub use unparsed::Unparsed;
pub use version::{InvalidVersion, Version};
