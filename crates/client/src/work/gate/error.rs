//! Why a gate cannot be created, and why it fails a write.

use std::sync::Arc;
use std::time::Duration;

/// The deadline of a gate does not fit the durations of its elector. A retry does not help: change the deadline or the
/// durations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGate {
    /// With a deadline of zero, no write could ever be in time.
    #[error("cannot gate writes under Lease {lease}: the write deadline must be above 0")]
    DeadlineZero {
        /// `namespace/name`.
        lease: Arc<str>,
    },
    /// The deadline is so long that the gate would reject writes although this process leads and renews in time.
    #[error(
        "cannot gate writes under Lease {lease}: the write deadline of {} ms must be at most {} ms, the renew deadline minus \
         one jittered retry period",
        .deadline.as_millis(),
        .most.as_millis()
    )]
    DeadlineTooLong {
        /// `namespace/name`.
        lease: Arc<str>,
        /// The deadline that was given.
        deadline: Duration,
        /// The longest deadline.
        most: Duration,
    },
    /// A write under way could outlast the grace, so that the elector could not give the Lease up.
    #[error(
        "cannot gate writes under Lease {lease}: the write deadline of {} ms must be at most {} ms, the grace in which work \
         must stop",
        .deadline.as_millis(),
        .grace.as_millis()
    )]
    DeadlineAboveGrace {
        /// `namespace/name`.
        lease: Arc<str>,
        /// The deadline that was given.
        deadline: Duration,
        /// The grace.
        grace: Duration,
    },
}

/// The gate rejected or ended a write. Reads never return this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// The write was not sent, because this process does not lead. The current leader does this work; if this process
    /// becomes the leader, it should compute the write again.
    #[error("not the leader of Lease {lease}: the write was not sent; retry from a fresh read once this process leads")]
    NotLeading {
        /// `namespace/name`.
        lease: Arc<str>,
    },
    /// The write was not sent: the maximum number of writes already wait for this process to lead.
    #[error(
        "not the leader of Lease {lease}, and {most} writes are waiting already: the write was not sent; retry from a \
         fresh read once this process leads"
    )]
    TooManyParked {
        /// `namespace/name`.
        lease: Arc<str>,
        /// How many writes may wait.
        most: usize,
    },
    /// The write reached its deadline. The server may still execute it.
    #[error("the write under Lease {lease} exceeded its deadline: its outcome is unknown; read before you write again")]
    TookTooLong {
        /// `namespace/name`.
        lease: Arc<str>,
    },
    /// The term in which the write began was lost while the write was under way. The server may still execute it.
    #[error("the term of Lease {lease} was lost during the write: its outcome is unknown; read before you write again")]
    LostMeanwhile {
        /// `namespace/name`.
        lease: Arc<str>,
    },
    /// The runtime is shutting down, or the code that sends the write panicked.
    #[error(
        "the task of a write under Lease {lease} panicked or was aborted: its outcome is unknown; restart this process"
    )]
    GivenUp {
        /// `namespace/name`.
        lease: Arc<str>,
    },
}

impl GateError {
    /// Whether the server may have executed the write, or still may.
    pub const fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::NotLeading { .. } | Self::TooManyParked { .. } => false,
            Self::TookTooLong { .. } | Self::LostMeanwhile { .. } | Self::GivenUp { .. } => true,
        }
    }

    /// Whether the write can succeed later without an intervention: once this process leads. A write with an [unknown
    /// outcome](Self::is_outcome_unknown) may have succeeded already, so retry it from a fresh read.
    pub const fn is_retryable(&self) -> bool {
        !matches!(self, Self::GivenUp { .. })
    }
}

/// Whether `error` means that the gate rejected a write because this process does not lead.
pub fn is_not_leading(error: &kube::Error) -> bool {
    matches!(gate_error(error), Some(GateError::NotLeading { .. }))
}

/// Returns the gate's error, if the gate failed the request.
pub fn gate_error(error: &kube::Error) -> Option<&GateError> {
    match error {
        kube::Error::Service(error) => error.downcast_ref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_names_its_lease_and_whether_a_retry_may_help() {
        let lease: Arc<str> = "n/l".into();
        for (error, is_retryable, is_outcome_unknown) in [
            (GateError::NotLeading { lease: lease.clone() }, true, false),
            (GateError::TooManyParked { lease: lease.clone(), most: 7 }, true, false),
            (GateError::TookTooLong { lease: lease.clone() }, true, true),
            (GateError::LostMeanwhile { lease: lease.clone() }, true, true),
            (GateError::GivenUp { lease: lease.clone() }, false, true),
        ] {
            let says = (error.is_retryable(), error.is_outcome_unknown());
            assert_eq!(says, (is_retryable, is_outcome_unknown), "{error}");
            assert!(error.to_string().contains("Lease n/l"), "{error}");
        }
    }
}
