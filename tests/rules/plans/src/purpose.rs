//! The purpose of a request, derived from its content; and the change that a watch event shows.
//!
//! Nothing here queries the sender, so an unexpected write shows by what it changes.

use http::{Method, Uri};
use hustings_client::api::{ReadCandidate, ReadLease, names};
use hustings_client::model::SessionMark;
use serde_json::Value;

/// The controllers' own Lease.
pub const OWN_LEASE: &str = "hustings-controller";

/// The kind of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A change.
    Write(Write),
    /// A watch.
    Watch,
    /// A request that changes nothing.
    Read,
}

/// A request that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// `create`, `patch` or `delete`; in capitals where it is none of these.
    pub verb: String,
    /// The kind of the object.
    pub kind: String,
    /// The purpose.
    pub purpose: &'static str,
    /// The object and the change, to distinguish several writes of one purpose.
    pub detail: Option<String>,
}

impl Asked {
    /// Reads a request.
    pub fn read(method: &Method, uri: &Uri, body: &[u8]) -> Self {
        let parts: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
        let after = parts.iter().position(|part| *part == "namespaces").and_then(|at| parts.get(at + 2..));
        let [resource, rest @ ..] = after.unwrap_or(parts.get(3..).unwrap_or_default()) else { return Self::Read };
        if *method == Method::GET {
            let watches = uri.query().is_some_and(|query| query.contains("watch=true"));
            return if watches { Self::Watch } else { Self::Read };
        }
        // Access reviews are created, and change nothing.
        if resource.starts_with("selfsubject") {
            return Self::Read;
        }
        let verb = match method.as_str() {
            "POST" => "create",
            "PATCH" => "patch",
            "DELETE" => "delete",
            other => other,
        };
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let named = rest.first().copied().or_else(|| body.pointer("/metadata/name")?.as_str());
        let (kind, purpose, detail) = match *resource {
            "leases" => {
                let kind = if named == Some(OWN_LEASE) { "OwnLease" } else { "Lease" };
                (kind, if verb == "patch" { of_lease_patch(&body) } else { "whole" }, None)
            }
            "leasecandidates" => {
                let is_status = rest.get(1) == Some(&"status");
                let purpose = if verb == "patch" { of_candidate_patch(&body, is_status) } else { "whole" };
                let detail = match (purpose, named) {
                    ("status", Some(name)) => {
                        let state = body.pointer("/status/state").and_then(Value::as_str).unwrap_or("none");
                        Some(format!("{name}-{state}"))
                    }
                    ("ping", Some(name)) => Some(name.to_owned()),
                    _ => None,
                };
                ("LeaseCandidate", purpose, detail)
            }
            "events" => ("Event", "report", body.get("reason").and_then(Value::as_str).map(str::to_owned)),
            other => (other, "unknown", None),
        };
        Self::Write(Write { verb: verb.to_owned(), kind: kind.to_owned(), purpose, detail })
    }
}

impl Write {
    /// The purpose and the object.
    pub fn name(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{}-{detail}", self.purpose),
            None => self.purpose.to_owned(),
        }
    }
}

fn of_lease_patch(body: &Value) -> &'static str {
    let annotation = |name| body.pointer("/metadata/annotations").and_then(|all| all.get(name));
    let says = |name| annotation(name).is_some_and(Value::is_string);
    let spec = |name| body.pointer("/spec").and_then(|spec| spec.get(name));
    let holder = spec("holderIdentity").and_then(Value::as_str).unwrap_or_default();
    match SessionMark::read(annotation(names::SESSION).and_then(Value::as_str)) {
        SessionMark::Open if holder.is_empty() && says(names::HOLD) => "hold",
        SessionMark::Open if holder.is_empty() => "release",
        SessionMark::Open if says(names::REASON) => "grant",
        SessionMark::Open => "hand-over",
        SessionMark::Absent if says(names::HOLD) => "hold",
        SessionMark::Absent if says(names::PREFERRED_HOLDER) => "prefer",
        SessionMark::Absent if annotation(names::LEAVING).is_some_and(Value::is_string) => "leave",
        SessionMark::Absent if spec("renewTime").is_some() => "renewal",
        SessionMark::Absent if annotation(names::PREFERRED_HOLDER).is_some() => "withdraw",
        SessionMark::Absent if body.pointer("/metadata/labels").is_some() => "enrol",
        SessionMark::Absent => "unknown",
        _ if spec("leaseTransitions").is_some() => "claim",
        _ => "take-up",
    }
}

fn of_candidate_patch(body: &Value, is_status: bool) -> &'static str {
    let spec = |name| body.pointer("/spec").is_some_and(|spec| spec.get(name).is_some());
    match () {
        () if is_status => "status",
        () if spec("pingTime") => "ping",
        () if spec("binaryVersion") => "refresh",
        () if spec("renewTime") => "ack",
        () => "unknown",
    }
}

/// A watch event: the kind and name of its object, and the change that it shows. `None` for objects outside the election.
pub fn of_event(event: &Value) -> Option<(&'static str, String, String)> {
    let type_ = event.get("type")?.as_str()?.to_lowercase();
    let object = event.get("object").filter(|_| type_ != "bookmark")?;
    let name = object.pointer("/metadata/name")?.as_str()?.to_owned();
    match object.get("kind")?.as_str()? {
        "Lease" => {
            let record = ReadLease::from_json(object.clone()).record;
            let mark = match record.session {
                SessionMark::Open => "open",
                SessionMark::Absent => "unmarked",
                _ => "term",
            };
            let mut shown = format!("{type_}-{}-{mark}", record.holder.as_deref().unwrap_or("nobody"));
            if let Some(preferred) = &record.preferred_holder {
                shown = format!("{shown}-prefers-{preferred}");
            }
            for (is_so, word) in [(record.leaving, "-leaving"), (record.hold.is_some(), "-hold")] {
                if is_so {
                    shown.push_str(word);
                }
            }
            Some((if name == OWN_LEASE { "OwnLease" } else { "Lease" }, name, shown))
        }
        "LeaseCandidate" => {
            let record = ReadCandidate::from_json(object.clone()).record;
            let state = record.status.state.map_or("unjudged", hustings_client::model::CandidateState::as_str);
            let pinged = if record.ping_time > record.renew_time { "-pinged" } else { "" };
            let shown = format!("{type_}-{name}-{state}{pinged}");
            Some(("LeaseCandidate", name, shown))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(method: &Method, path: &str, body: &Value) -> Asked {
        Asked::read(method, &path.parse().unwrap(), body.to_string().as_bytes())
    }

    #[test]
    fn every_write_of_a_lease_has_its_purpose() {
        let open = json!("open");
        for (annotations, spec, expected) in [
            (json!({"hustings.io/session": "s/1/5"}), json!({"holderIdentity": "a", "leaseTransitions": 3}), "claim"),
            (json!({"hustings.io/session": "s/1/5"}), json!({"holderIdentity": "a"}), "take-up"),
            (json!({"hustings.io/session": open, "hustings.io/reason": "r"}), json!({"holderIdentity": "a"}), "grant"),
            (json!({"hustings.io/session": open}), json!({"holderIdentity": "a"}), "hand-over"),
            (json!({"hustings.io/session": open}), json!({"holderIdentity": ""}), "release"),
            (json!({"hustings.io/session": open, "hustings.io/hold": "h"}), json!({"holderIdentity": ""}), "hold"),
            (json!({"hustings.io/preferred-holder": "b"}), json!({}), "prefer"),
            (json!({"hustings.io/preferred-holder": null}), json!({}), "withdraw"),
            (json!({"hustings.io/leaving": "true"}), json!({"renewTime": "t"}), "leave"),
            (json!({}), json!({"renewTime": "t"}), "renewal"),
            (json!({}), json!({}), "unknown"),
        ] {
            let body = json!({"metadata": {"annotations": annotations}, "spec": spec});
            let path = "/apis/coordination.k8s.io/v1/namespaces/n/leases/l?fieldManager=hustings";
            let Asked::Write(write) = asked(&Method::PATCH, path, &body) else { panic!("{body}") };
            assert_eq!((write.purpose, write.kind.as_str()), (expected, "Lease"), "{body}");
        }
    }

    #[test]
    fn requests_that_change_nothing_are_distinguished_from_those_that_do() {
        let candidates = "/apis/hustings.io/v1alpha1/namespaces/n/leasecandidates";
        assert_eq!(asked(&Method::GET, candidates, &Value::Null), Asked::Read);
        assert_eq!(asked(&Method::GET, &format!("{candidates}?watch=true"), &Value::Null), Asked::Watch);
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        assert_eq!(asked(&Method::POST, review, &Value::Null), Asked::Read);
        let status = json!({"status": {"state": "Holder"}});
        let Asked::Write(write) = asked(&Method::PATCH, &format!("{candidates}/a/status"), &status) else { panic!() };
        assert_eq!(write.name(), "status-a-Holder");
        let Asked::Write(write) = asked(&Method::PUT, "/api/v1/namespaces/n/secrets/s", &Value::Null) else { panic!() };
        assert_eq!((write.verb.as_str(), write.kind.as_str(), write.purpose), ("PUT", "secrets", "unknown"));
    }
}
