//! Requests about Leases and candidates as HTTP, and the objects in their answers.

use http::Request as HttpRequest;
use hustings_core::model::{CandidateKey, CandidateKind, CandidatePatch, CandidateRecord, Object, Request};
use kube_core::params::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube_core::{Resource, request};
use serde::Deserialize;
use serde_json::Value;

use crate::api::{
    NativeVersion, ObjectParts, ReadCandidate, ReadLease, ReadNativeCandidate, candidate_patch, empty_lease,
    lease_patch, new_candidate,
};
use crate::expected::{Expected, NOT_THE_SERVER};
use crate::failure::FailureCause;

/// The field manager that the server records.
const FIELD_MANAGER: &str = "hustings";

/// How many candidates of one Lease are listed at most.
const MOST_LISTED: u32 = 500;

/// The content of a successful answer.
#[derive(Debug)]
pub struct Decoded {
    /// The object, or `None` after its deletion.
    pub object: Option<Object>,
    /// Whether the server kept the native copies that the request set, if it set any.
    pub keeps_native_fields: Option<bool>,
}

/// The part of a list of candidates that is read.
#[derive(Deserialize)]
struct CandidateList {
    /// Null if it is empty in Go, but never absent.
    #[serde(deserialize_with = "Option::deserialize")]
    items: Option<Vec<ReadCandidate>>,
}

/// Returns the request as the API server expects it. `native` is the version of native candidates that it serves.
pub fn encode(
    namespace: &str,
    request: &Request,
    native: NativeVersion,
) -> Result<HttpRequest<Vec<u8>>, request::Error> {
    let leases = || request::Request::new(ReadLease::url_path(&(), Some(namespace)));
    let candidates = || request::Request::new(ReadCandidate::url_path(&(), Some(namespace)));
    let candidates_of = |candidate: &CandidateKey| match candidate.kind {
        CandidateKind::Hustings => candidates(),
        CandidateKind::Native => request::Request::new(ReadNativeCandidate::url_path(&native, Some(namespace))),
    };
    let bytes = |object: Value| object.to_string().into_bytes();
    let create = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let patch = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match request {
        Request::ReadLease { name } => leases().get(name, &GetParams::default()),
        Request::CreateLease { name } => leases().create(&create, bytes(empty_lease(namespace, name))),
        Request::WriteLease { name, write } => leases().patch(name, &patch, &Patch::Merge(lease_patch(write))),
        Request::ReadCandidate { candidate } => candidates_of(candidate).get(&candidate.name, &GetParams::default()),
        Request::ListCandidates { lease_name } => {
            let of_lease = ListParams::default().fields(&format!("spec.leaseName={lease_name}"));
            candidates().list(&of_lease.limit(MOST_LISTED))
        }
        Request::CreateCandidate { nomination, renew_time } => {
            candidates().create(&create, bytes(new_candidate(namespace, nomination, *renew_time)))
        }
        Request::PatchCandidate { candidate, uid, patch: change } => {
            let merge = Patch::Merge(candidate_patch(uid, change));
            match change {
                CandidatePatch::Status { .. } => {
                    candidates_of(candidate).patch_subresource("status", &candidate.name, &patch, &merge)
                }
                _ => candidates_of(candidate).patch(&candidate.name, &patch, &merge),
            }
        }
        Request::DeleteCandidate { candidate, uid, resource_version } => {
            let preconditions = Preconditions {
                uid: Some(uid.clone()),
                resource_version: resource_version.map(|version| version.to_string()),
            };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            candidates_of(candidate).delete(&candidate.name, &params)
        }
    }
}

/// Reads the body of a success. Fails if it does not answer the request.
pub(crate) fn decode(request: &Request, expected: &Expected, body: &[u8]) -> Result<Decoded, FailureCause> {
    let mut keeps_native_fields = None;
    let object = match request {
        Request::ReadLease { .. } | Request::CreateLease { .. } | Request::WriteLease { .. } => {
            let ReadLease { record, .. } = expected.read_object(body)?.into();
            if let Request::WriteLease { write, .. } = request {
                keeps_native_fields = write.native_fields_kept_in(&record);
            }
            Some(Object::Lease(record))
        }
        Request::ReadCandidate { candidate } | Request::PatchCandidate { candidate, .. } => {
            Some(Object::Candidate(candidate_of(candidate.kind, expected.read_object(body)?)))
        }
        Request::CreateCandidate { .. } => {
            Some(Object::Candidate(candidate_of(CandidateKind::Hustings, expected.read_object(body)?)))
        }
        Request::ListCandidates { lease_name } => {
            expected.check(body)?;
            let items = serde_json::from_slice::<CandidateList>(body)?.items.unwrap_or_default();
            if items.iter().any(|candidate| candidate.record.lease_name != *lease_name) {
                return Err(format!("the list has candidates of other Leases; {NOT_THE_SERVER}").into());
            }
            Some(Object::Candidates(items.into_iter().map(|candidate| candidate.record).collect()))
        }
        Request::DeleteCandidate { candidate, .. } => {
            expected.check(body)?;
            // The object, or a Status, which has no finalizers.
            let answer: ObjectParts = serde_json::from_slice(body)?;
            let is_kept = answer.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
            is_kept.then(|| Object::Candidate(candidate_of(candidate.kind, answer)))
        }
    };
    Ok(Decoded { object, keeps_native_fields })
}

fn candidate_of(kind: CandidateKind, object: ObjectParts) -> CandidateRecord {
    match kind {
        CandidateKind::Hustings => ReadCandidate::from(object).record,
        CandidateKind::Native => ReadNativeCandidate::from(object).record,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_without_items_is_empty_only_if_the_answer_says_so() {
        let request = Request::ListCandidates { lease_name: "l".to_owned() };
        let sent = encode("n", &request, NativeVersion::default()).unwrap();
        let expected = Expected::of(&sent, sent.body()).unwrap();
        let mut list = json!({
            "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidateList", "metadata": { "resourceVersion": "8" },
        });
        let listed =
            |list: &Value| decode(&request, &expected, list.to_string().as_bytes()).map(|answer| answer.object);
        assert!(listed(&list).is_err(), "it has none");
        for items in [json!([]), json!(null)] {
            list["items"] = items;
            assert_eq!(listed(&list).unwrap(), Some(Object::Candidates(Vec::new())), "{list}");
        }
    }
}
