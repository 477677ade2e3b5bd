//! One request about a Lease or candidates: what is sent, and what the answers mean.
//!
//! The rule that must hold: a request that is sent to an API server is answered by it. An answer of a proxy in between
//! never shows that an object is missing, and never has the content of an object.

use http::{Request as HttpRequest, Uri};
use hustings_core::model::Request;
use kube_core::{Status, request};
use serde::Deserialize;

use crate::api::{NativeVersion, ReadCandidate, ReadLease, names};
use crate::expected::Expected;
use crate::failure::{Failure, is_missing, names as is_named, read_status};
use crate::request::{Decoded, decode, encode};

/// A request under way.
#[derive(Debug)]
pub struct Exchange {
    expected: Expected,
    /// The 404 that proves nothing unless the server does not know the kind.
    unproven: Option<Status>,
}

/// What follows an answer.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum Next {
    /// This request decides what the answer means. Its answer belongs to the same exchange.
    Ask(HttpRequest<Vec<u8>>),
    /// The answer.
    Answered(Result<Decoded, Failure>),
}

#[derive(Deserialize)]
struct Groups {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
}

impl Exchange {
    /// Returns the exchange, and the request to send. `native` is the version of native candidates that the server
    /// serves.
    ///
    /// # Errors
    /// Fails if the request cannot be sent to any server.
    pub fn begin(
        namespace: &str,
        request: &Request,
        native: NativeVersion,
    ) -> Result<(Self, HttpRequest<Vec<u8>>), request::Error> {
        let sent = encode(namespace, request, native)?;
        let expected = Expected::of(&sent, sent.body())
            .ok_or_else(|| request::Error::Validation(format!("{} names no object", sent.uri())))?;
        Ok((Self { expected, unproven: None }, sent))
    }

    /// Observes an answer with this status, header `Retry-After` and body.
    pub fn answered(
        &mut self,
        namespace: &str,
        request: &Request,
        code: u16,
        retry_after: Option<&str>,
        body: &[u8],
    ) -> Next {
        if let Some(unproven) = self.unproven.take() {
            let is_missing = is_success(code) && self.expected.check(body).is_ok() && lacks_candidates(body);
            return Next::Answered(Err(if is_missing { Failure::Missing } else { unproven.into() }));
        }
        if is_success(code) {
            return Next::Answered(decode(request, &self.expected, body).map_err(Failure::Unknown));
        }
        let status = read_status(code, retry_after, body);
        if code != 404 {
            return Next::Answered(Err(status.into()));
        }
        match is_proven_missing(namespace, request, &status) {
            Some(true) => Next::Answered(Err(Failure::Missing)),
            Some(false) => Next::Answered(Err(status.into())),
            None => {
                let list = groups();
                let Some(expected) = Expected::of(&list, list.body()) else {
                    return Next::Answered(Err(status.into()));
                };
                *self = Self { expected, unproven: Some(status) };
                Next::Ask(list)
            }
        }
    }

    /// Observes that the request got no answer, for this reason.
    pub fn failed(&mut self, failure: Failure) -> Failure {
        // Nothing decides what the first answer means.
        self.unproven.take().map_or(failure, Failure::from)
    }
}

/// The request for the list of API groups.
pub fn groups() -> HttpRequest<Vec<u8>> {
    let mut request = HttpRequest::new(Vec::new());
    *request.uri_mut() = Uri::from_static("/apis");
    request
}

/// Whether a server with this list of API groups certainly does not serve LeaseCandidates. A 404 alone does not prove
/// that, because a proxy may send it.
pub fn lacks_candidates(groups: &[u8]) -> bool {
    match serde_json::from_slice::<Groups>(groups) {
        Ok(Groups { groups }) => !groups.is_empty() && !groups.iter().any(|group| group.name == names::GROUP),
        Err(_) => false,
    }
}

const fn is_success(code: u16) -> bool {
    matches!(code, 200..=299)
}

/// Whether this 404 proves that the object is missing, or that nothing can be created in its place. `None` if that
/// depends on whether the server knows the kind.
fn is_proven_missing(namespace: &str, request: &Request, status: &Status) -> Option<bool> {
    let name: &str = match request {
        Request::ReadLease { name } | Request::WriteLease { name, .. } => name,
        Request::ReadCandidate { candidate }
        | Request::PatchCandidate { candidate, .. }
        | Request::DeleteCandidate { candidate, .. } => &candidate.name,
        Request::CreateLease { .. } | Request::CreateCandidate { .. } | Request::ListCandidates { .. } => "",
    };
    // A missing namespace also makes a creation fail.
    if is_named(status, "", "namespaces", namespace) {
        return Some(true);
    }
    match request {
        Request::ReadLease { .. } | Request::CreateLease { .. } | Request::WriteLease { .. } => {
            Some(is_missing::<ReadLease>(status, name))
        }
        // A request about a native candidate is sent only if the server serves that kind.
        _ if is_named(status, names::NATIVE_GROUP, "leasecandidates", name) => Some(true),
        // The list of API groups is large, and is requested only if nothing else decides.
        _ => is_missing::<ReadCandidate>(status, name).then_some(true),
    }
}
