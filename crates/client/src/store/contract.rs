//! What every store offers to electors: one operation, two watches, and answers.

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use hustings_core::model::{CandidateRecord, LeaseRecord, Object, Request};
pub use hustings_wire::failure::{Answer, reply_of};

use super::failure::Failure;

/// The reports of a watch of one object: each version that it observes, or `None` when the object is missing. The first
/// item is the current state, as far as the watch knows it: `None` is only a hint, which a read must confirm. A watch
/// may skip intermediate versions, never the latest. It never ends.
pub type Versions<T> = BoxStream<'static, Option<T>>;

/// A store of Leases and candidates, as electors use it.
pub trait Store: Send + Sync + 'static {
    /// Executes a request in this namespace, whole or not at all. A read is live: its answer is not older than the
    /// sending of the request.
    ///
    /// The store never repeats a request: only the caller decides about that. If the caller drops the future, the
    /// server may still execute the request.
    fn send<'a>(&'a self, namespace: &'a str, request: &'a Request) -> BoxFuture<'a, Answer>;

    /// Watches a Lease.
    fn watch_lease(&self, namespace: &str, name: &str) -> Versions<LeaseRecord>;

    /// Watches a candidate.
    fn watch_candidate(&self, namespace: &str, name: &str) -> Versions<CandidateRecord>;
}

/// Returns the Lease in the answer to a request about a Lease.
///
/// # Errors
/// Returns the failure of the request. An answer about another object leaves the outcome unknown.
pub fn lease_of(answer: Answer) -> Result<LeaseRecord, Failure> {
    match answer? {
        Some(Object::Lease(record)) => Ok(record),
        other => Err(Failure::Unknown(format!("the store answered with {other:?} instead of a Lease").into())),
    }
}

/// Returns the candidate in the answer to a request about a candidate.
///
/// # Errors
/// Returns the failure of the request. An answer about another object leaves the outcome unknown.
pub fn candidate_of(answer: Answer) -> Result<CandidateRecord, Failure> {
    match answer? {
        Some(Object::Candidate(record)) => Ok(record),
        other => Err(Failure::Unknown(format!("the store answered with {other:?} instead of a candidate").into())),
    }
}

#[cfg(test)]
mod tests {
    use hustings_core::model::Reply;

    use super::*;

    #[test]
    fn each_answer_of_a_store_has_a_reply_and_an_unexpected_object_is_named() {
        let lease = || Object::Lease(LeaseRecord::default());
        let candidate = || Object::Candidate(CandidateRecord::default());
        assert_eq!(reply_of(Ok(Some(lease()))), Reply::Landed(lease()));
        assert_eq!(reply_of(Ok(None)), Reply::Deleted);
        assert_eq!(reply_of(Err(Failure::Missing)), Reply::Missing);
        assert!(lease_of(Ok(Some(lease()))).is_ok() && candidate_of(Ok(Some(candidate()))).is_ok());
        let unexpected = [lease_of(Ok(Some(candidate()))).err(), candidate_of(Ok(Some(lease()))).err()];
        for (failure, expected) in
            unexpected.into_iter().flatten().zip(["instead of a Lease", "instead of a candidate"])
        {
            assert!(matches!(failure, Failure::Unknown(_)) && failure.to_string().contains(expected), "{failure}");
        }
        assert!(matches!(lease_of(Err(Failure::Conflict)), Err(Failure::Conflict)));
    }
}
