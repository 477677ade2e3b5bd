//! Why a gate cannot be created, and why it fails a write.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use std::{io, iter};

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

/// How many causes of an error are searched. A longer chain has no end: an error that is its own cause.
const LONGEST_CHAIN: usize = 64;

/// Whether `error`, or one of its causes, means that the gate did not send a write because this process does not lead.
///
/// The function accepts every error that contains the gate's: `kube::Error`, an enum of your own, an error of kube's
/// finalizer or controller, and `anyhow::Error` (as `&*error`). It finds the gate's error through the
/// [sources](Error::source). So an enum that is `#[error(transparent)]` must wrap the `kube::Error`, not the
/// [`GateError`] itself.
pub fn is_not_leading(error: &(dyn Error + 'static)) -> bool {
    matches!(gate_error(error), Some(GateError::NotLeading { .. } | GateError::TooManyParked { .. }))
}

/// Returns the gate's error if the gate failed the request. Searches the same causes as [`is_not_leading`].
pub fn gate_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a GateError> {
    iter::successors(Some(error), |error| cause(*error)).take(LONGEST_CHAIN).find_map(as_gate_error)
}

/// What `error` wraps. An `io::Error` reports the source of the error that it wraps, not that error itself.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

/// A pointer is an error of its own, and reports the source of the error that it points to.
fn as_gate_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a GateError> {
    let boxed = || error.downcast_ref::<Box<GateError>>().map(AsRef::as_ref);
    let shared = || error.downcast_ref::<Arc<GateError>>().map(AsRef::as_ref);
    error.downcast_ref().or_else(boxed).or_else(shared)
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

    /// An error of a user's program.
    #[derive(Debug, thiserror::Error)]
    enum ReconcileError {
        #[error("cannot write")]
        Write(#[source] kube::Error),
        #[error(transparent)]
        Kube(#[from] kube::Error),
        #[error("cannot write")]
        Large(#[source] Box<kube::Error>),
        #[error("cannot write")]
        Shared(#[source] Arc<kube::Error>),
        #[error("cannot write")]
        Any(#[source] anyhow::Error),
        #[error("rejected")]
        Gate(#[source] GateError),
    }

    /// An error that is its own cause.
    #[derive(Debug)]
    struct Endless;

    impl std::fmt::Display for Endless {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("again")
        }
    }

    impl Error for Endless {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(self)
        }
    }

    /// Everything that may lie between the gate and the caller.
    fn wrappings(error: &GateError) -> Vec<(&'static str, Box<dyn Error + Send + Sync>)> {
        use kube::runtime::{controller, finalizer, watcher};
        let error = || error.clone();
        let kube = || kube::Error::Service(error().into());
        let finalizer = || finalizer::Error::ApplyFailed(ReconcileError::Write(kube()));
        let object = kube::runtime::reflector::ObjectRef::<kube::core::DynamicObject>::new_with("o", resource());
        vec![
            ("plain", error().into()),
            ("kube", kube().into()),
            ("kube, by a box", kube::Error::Service(Box::new(Box::new(error()))).into()),
            ("kube, by a shared pointer", kube::Error::Service(Box::new(Arc::new(error()))).into()),
            ("kube, by another layer", kube::Error::Service(io::Error::other(error()).into()).into()),
            ("kube, by two layers", kube::Error::Service(io::Error::other(kube()).into()).into()),
            ("io", io::Error::other(io::Error::other(error())).into()),
            ("own enum", ReconcileError::Write(kube()).into()),
            ("own transparent enum", ReconcileError::from(kube()).into()),
            ("own enum with a box", ReconcileError::Large(Box::new(kube())).into()),
            ("own enum with a shared pointer", ReconcileError::Shared(Arc::new(kube())).into()),
            ("own enum with anyhow", ReconcileError::Any(anyhow::Error::new(kube()).context("status")).into()),
            ("own enum with the gate's error", ReconcileError::Gate(error()).into()),
            ("anyhow", anyhow::Error::new(kube()).into()),
            ("anyhow with context", anyhow::Error::new(kube()).context("status").context("object").into()),
            ("finalizer", finalizer().into()),
            ("finalizer itself", finalizer::Error::<ReconcileError>::AddFinalizer(kube()).into()),
            (
                "controller",
                controller::Error::<_, watcher::Error>::ReconcilerFailed(finalizer(), Box::new(object.erase())).into(),
            ),
            ("watcher", watcher::Error::WatchFailed(kube()).into()),
        ]
    }

    fn resource() -> kube::core::ApiResource {
        kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("", "v1", "ConfigMap"))
    }

    #[test]
    fn a_rejection_is_recognized_through_everything_that_may_wrap_it() {
        let lease: Arc<str> = "n/l".into();
        for (inner, expected) in [
            (GateError::NotLeading { lease: lease.clone() }, true),
            (GateError::TooManyParked { lease: lease.clone(), most: 7 }, true),
            (GateError::TookTooLong { lease: lease.clone() }, false),
            (GateError::LostMeanwhile { lease: lease.clone() }, false),
            (GateError::GivenUp { lease: lease.clone() }, false),
        ] {
            for (how, error) in wrappings(&inner) {
                assert_eq!(gate_error(&*error), Some(&inner), "{how}: {error:?}");
                assert_eq!(is_not_leading(&*error), expected, "{how}: {error:?}");
            }
        }
    }

    #[test]
    fn other_errors_are_not_the_gates() {
        let service = |error: &'static str| kube::Error::Service(error.into());
        let others: [Box<dyn Error + Send + Sync>; 5] = [
            Endless.into(),
            service("not the leader of Lease n/l").into(),
            io::Error::from(io::ErrorKind::TimedOut).into(),
            anyhow::anyhow!("not the leader").into(),
            kube::Error::LinesCodecMaxLineLengthExceeded.into(),
        ];
        for error in others {
            assert_eq!((gate_error(&*error), is_not_leading(&*error)), (None, false), "{error:?}");
        }
    }
}
