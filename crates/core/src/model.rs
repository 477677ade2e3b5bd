//! The words that both cores share: versions, times, and what was read of a Lease and of its candidates.
//!
//! Every type here is total: whatever the API holds has a defined reading, so that no content of any object can stop an
//! election.

mod candidate;
mod hold;
mod lease;
mod lease_write;
mod observed;
mod time;
mod version;

pub use candidate::{
    CandidateRecord, CandidateState, Condition, Inadmissible, RecordedStatus, Standing, Strategy, Truth,
};
pub use hold::Hold;
pub use lease::{LeaseRecord, SessionMark, SessionStamp};
pub use lease_write::{LeaseWrite, Purpose, Set};
pub use observed::{Observed, UNDECLARED_DURATION_SECONDS, drift_allowance};
pub use time::{Moment, Now, WireTime};
pub use version::{InvalidVersion, Version};
