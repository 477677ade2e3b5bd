//! Classifies requests by method and path, as the API server does.
//!
//! A request counts as a write unless it certainly only reads, or certainly has no effect. No rule depends on a single
//! part of a path, because a custom resource may have the name of a resource in another group.

use std::borrow::Cow;

use http::{Method, Request, header};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

/// The properties of a request that the rules of a write gate check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path, decoded.
    pub path: &'a str,
    /// The resource that the path names, if it names one.
    pub target: Option<RequestTarget<'a>>,
}

/// The resource, object or subresource that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTarget<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Version of the group.
    pub version: &'a str,
    /// Namespace. A Namespace object belongs to the namespace of its own name.
    pub namespace: Option<&'a str>,
    /// Resource, such as `pods`.
    pub resource: &'a str,
    /// Name of the object.
    pub name: Option<&'a str>,
    /// Subresource, such as `status`.
    pub subresource: Option<&'a str>,
}

/// The relevant part of the body of a DELETE.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions {
    #[serde(default)]
    dry_run: Vec<String>,
}

/// Whether the request only reads. A GET can do more: it can open `exec` and the like, and through `proxy` its effect
/// depends on the server behind it.
pub fn is_read<B>(request: &Request<B>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && !request.headers().contains_key(header::UPGRADE)
        && !takes_effect_elsewhere(request)
}

/// Whether the request changes nothing although it is not a read: a dry run, or a review of access or of a token. `body`
/// returns the body of a DELETE; `None` if it is a stream.
pub fn changes_nothing<B, Bytes: AsRef<[u8]>>(
    request: &Request<B>,
    body: impl FnOnce(&Request<B>) -> Option<Bytes>,
) -> bool {
    is_dry_run(request, body) || is_review(request)
}

/// Calls `rule` with the attributes of the request.
pub fn with_attributes<B, T>(request: &Request<B>, rule: impl FnOnce(&Attributes<'_>) -> T) -> T {
    let path = path(request);
    rule(&Attributes { method: request.method(), path: &path, target: RequestTarget::read(&path) })
}

impl<'a> RequestTarget<'a> {
    /// Parses a decoded path; `None` if it names no resource.
    pub fn read(path: &'a str) -> Option<Self> {
        if path.contains("//") {
            return None;
        }
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?;
        Some(match (parts.next()?, parts.next(), parts.next()) {
            (resource @ "namespaces", name, subresource @ (None | Some("status" | "finalize"))) => {
                Self { group, version, namespace: name, resource, name, subresource }
            }
            ("namespaces", namespace, Some(resource)) => {
                Self { group, version, namespace, resource, name: parts.next(), subresource: parts.next() }
            }
            (resource, name, subresource) => Self { group, version, namespace: None, resource, name, subresource },
        })
    }

    /// Whether a component other than the API server carries the request out.
    fn takes_effect_elsewhere(&self) -> bool {
        self.group.is_empty()
            && matches!(self.resource, "pods" | "services" | "nodes")
            && matches!(self.subresource, Some("exec" | "attach" | "portforward" | "proxy"))
    }
}

/// The decoded path. The server treats an escaped slash as a slash.
fn path<B>(request: &Request<B>) -> Cow<'_, str> {
    percent_decode_str(request.uri().path()).decode_utf8_lossy()
}

/// Whether a component other than the API server carries the request out.
pub fn takes_effect_elsewhere<B>(request: &Request<B>) -> bool {
    RequestTarget::read(&path(request)).is_some_and(|target| target.takes_effect_elsewhere())
}

fn is_dry_run<B, Bytes: AsRef<[u8]>>(request: &Request<B>, body: impl FnOnce(&Request<B>) -> Option<Bytes>) -> bool {
    let asked = match *request.method() {
        Method::POST | Method::PUT | Method::PATCH => has_dry_run_query(request),
        // If there is a body, the server ignores the query.
        Method::DELETE => match body(request).as_ref().map(AsRef::as_ref) {
            Some([]) => has_dry_run_query(request),
            Some(body) => serde_json::from_slice(body).is_ok_and(|options: DeleteOptions| options.dry_run == ["All"]),
            None => false,
        },
        _ => false,
    };
    // Other components do not support dry runs.
    asked && RequestTarget::read(&path(request)).is_some_and(|target| !target.takes_effect_elsewhere())
}

fn has_dry_run_query<B>(request: &Request<B>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "dryRun=All"))
}

fn is_review<B>(request: &Request<B>) -> bool {
    if *request.method() != Method::POST {
        return false;
    }
    let path = path(request);
    let Some(RequestTarget { group, namespace, resource, name: None, .. }) = RequestTarget::read(&path) else {
        return false;
    };
    match (group, resource) {
        ("authorization.k8s.io", "selfsubjectaccessreviews" | "subjectaccessreviews" | "selfsubjectrulesreviews")
        | ("authentication.k8s.io", "tokenreviews" | "selfsubjectreviews") => namespace.is_none(),
        ("authorization.k8s.io", "localsubjectaccessreviews") => namespace.is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, uri: &str, body: &'static str) -> Request<&'static str> {
        Request::builder().method(method).uri(uri).body(body).unwrap()
    }

    fn changes_nothing(request: &Request<&'static str>) -> bool {
        super::changes_nothing(request, |request| Some(*request.body()))
    }

    #[test]
    fn paths_are_parsed_as_the_server_parses_them() {
        let read = |path| {
            let RequestTarget { group, version, namespace, resource, name, subresource } = RequestTarget::read(path)?;
            Some([group, version, namespace.unwrap_or("-"), resource, name.unwrap_or("-"), subresource.unwrap_or("-")])
        };
        for (path, expected) in [
            ("/api/v1/pods", Some(["", "v1", "-", "pods", "-", "-"])),
            ("/api/v1/namespaces/n/pods/p/log", Some(["", "v1", "n", "pods", "p", "log"])),
            ("/api/v1/namespaces/n", Some(["", "v1", "n", "namespaces", "n", "-"])),
            ("/api/v1/namespaces/n/finalize", Some(["", "v1", "n", "namespaces", "n", "finalize"])),
            ("/api/v1/nodes/n/proxy/metrics/", Some(["", "v1", "-", "nodes", "n", "proxy"])),
            ("/apis/apps/v1/namespaces/n/deployments/d/", Some(["apps", "v1", "n", "deployments", "d", "-"])),
            ("/apis/apps/v1/namespaces//deployments", None),
            ("/apis/apps/v1", None),
            ("/version", None),
            ("/", None),
        ] {
            assert_eq!(read(path), expected, "{path}");
        }
    }

    #[test]
    fn a_request_to_something_behind_the_api_server_is_not_a_read() {
        let reads = [
            "/api/v1/namespaces/n/pods",
            "/api/v1/namespaces/n/pods?watch=true",
            "/api/v1/namespaces/n/pods/exec",
            "/api/v1/namespaces/n/pods/p/log?follow=true",
            "/apis/example.com/v1/namespaces/n/pods/p/proxy",
            "/api/v1/namespaces/n/configmaps/c/proxy",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            "/version",
        ];
        for uri in reads {
            assert!(is_read(&request("GET", uri, "")), "{uri}");
            assert!(is_read(&request("HEAD", uri, "")), "{uri}");
            assert!(!is_read(&request("POST", uri, "")), "{uri}");
        }
        for uri in [
            "/api/v1/namespaces/n/pods/p/exec?command=rm",
            "/api/v1/namespaces/n/pods/p/attach",
            "/api/v1/namespaces/n/pods/p/portforward",
            "/api/v1/namespaces/n/services/s/proxy/reset",
            "/api/v1/namespaces/n/pods/p/pr%6fxy",
            "/api/v1/namespaces/n/pods/p%2Fproxy",
            "/api/v1/nodes/n/proxy/run",
        ] {
            assert!(!is_read(&request("GET", uri, "")), "{uri}");
        }
        let mut upgrade = request("GET", "/apis/example.com/v1/consoles/c", "");
        upgrade.headers_mut().insert(header::UPGRADE, header::HeaderValue::from_static("websocket"));
        assert!(!is_read(&upgrade));
    }

    #[test]
    fn a_dry_run_changes_nothing() {
        let config_map = "/api/v1/namespaces/n/configmaps/c";
        let all = |uri: &str| format!("{uri}?fieldManager=m&dryRun=All");
        for (method, uri, body, expected) in [
            ("PATCH", all(config_map), "{}", true),
            ("PUT", all(config_map), "{}", true),
            ("POST", all("/api/v1/namespaces/n/configmaps"), "{}", true),
            ("POST", all("/api/v1/namespaces/n/pods/p/eviction"), "{}", true),
            ("POST", all("/api/v1/namespaces/n/pods/p/exec"), "", false),
            ("POST", all("/reset"), "", false),
            ("POST", format!("{config_map}?dryRun=None"), "{}", false),
            ("POST", format!("{config_map}?notdryRun=All"), "{}", false),
            ("DELETE", all(config_map), "", true),
            ("DELETE", all(config_map), "{}", false),
            ("DELETE", config_map.to_owned(), r#"{"dryRun":["All"]}"#, true),
            ("DELETE", config_map.to_owned(), r#"{"dryRun":[]}"#, false),
            ("DELETE", config_map.to_owned(), r#"{"dryRun":["None"]}"#, false),
            ("DELETE", config_map.to_owned(), r#"{"dryRun":["All"],"dryRun":[]}"#, false),
            ("DELETE", config_map.to_owned(), "dryRun: [All]", false),
            ("DELETE", config_map.to_owned(), "", false),
            // Such as an upgrade.
            ("GET", all(config_map), "", false),
        ] {
            assert_eq!(changes_nothing(&request(method, &uri, body)), expected, "{method} {uri} {body}");
        }
    }

    #[test]
    fn a_review_changes_nothing_but_a_resource_of_the_same_name_may() {
        let authorization = "/apis/authorization.k8s.io/v1";
        for (method, uri, expected) in [
            ("POST", format!("{authorization}/selfsubjectaccessreviews?"), true),
            ("POST", format!("{authorization}/subjectaccessreviews"), true),
            ("POST", format!("{authorization}/selfsubjectrulesreviews"), true),
            ("POST", format!("{authorization}/namespaces/n/localsubjectaccessreviews"), true),
            ("POST", "/apis/authentication.k8s.io/v1/tokenreviews".to_owned(), true),
            ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews".to_owned(), true),
            ("PUT", format!("{authorization}/subjectaccessreviews"), false),
            ("POST", format!("{authorization}/subjectaccessreviews/name"), false),
            ("POST", format!("{authorization}/namespaces/n/subjectaccessreviews"), false),
            ("POST", format!("{authorization}/localsubjectaccessreviews"), false),
            ("POST", "/apis/authentication.k8s.io/v1/subjectaccessreviews".to_owned(), false),
            ("POST", "/apis/example.com/v1/subjectaccessreviews".to_owned(), false),
            ("POST", "/apis/authorization.k8s.io.example.com/v1/subjectaccessreviews".to_owned(), false),
            ("POST", "/api/v1/namespaces/n/serviceaccounts/a/token".to_owned(), false),
        ] {
            assert_eq!(changes_nothing(&request(method, &uri, "{}")), expected, "{method} {uri}");
        }
    }
}
