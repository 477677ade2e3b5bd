//! What a request of a program does.

use http::header::{HeaderValue, UPGRADE};
use http::{Method, Request, Uri};
use hustings_wire::attributes::{changes_nothing, is_read, takes_effect_elsewhere};

/// The classes of requests, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestClass {
    Read,
    ChangesNothing,
    Write,
    TakesEffectElsewhere,
}

/// The request has a header `Upgrade`.
const UPGRADES: u32 = 1;

/// The body of the request cannot be read in advance.
pub(crate) const STREAMS: u32 = 2;

/// `hustings_gate`: classifies a request by its method, its path with the query, and its body.
pub fn gate(method: &[u8], target: &[u8], body: &[u8], flags: u32) -> u32 {
    class(method, target, body, flags).unwrap_or(RequestClass::Write) as u32
}

/// `None` if there cannot be such a request.
fn class(method: &[u8], target: &[u8], body: &[u8], flags: u32) -> Option<RequestClass> {
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method).ok()?;
    *request.uri_mut() = Uri::try_from(target).ok()?;
    let upgrades = flags & UPGRADES != 0;
    if upgrades {
        request.headers_mut().insert(UPGRADE, HeaderValue::from_static("any"));
    }
    let body = (flags & STREAMS == 0).then_some(body);
    Some(if is_read(&request) {
        RequestClass::Read
    } else if changes_nothing(&request, |_| body) {
        RequestClass::ChangesNothing
    } else if upgrades || takes_effect_elsewhere(&request) {
        RequestClass::TakesEffectElsewhere
    } else {
        RequestClass::Write
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_its_class() {
        let pods = "/api/v1/namespaces/n/pods";
        for (method, target, body, flags, expected) in [
            ("GET", pods.to_owned(), "", 0, RequestClass::Read),
            ("GET", format!("{pods}?watch=true"), "", 0, RequestClass::Read),
            ("POST", format!("{pods}?dryRun=All"), "{}", 0, RequestClass::ChangesNothing),
            ("DELETE", format!("{pods}/p"), r#"{"dryRun":["All"]}"#, 0, RequestClass::ChangesNothing),
            ("DELETE", format!("{pods}/p"), r#"{"dryRun":["All"]}"#, STREAMS, RequestClass::Write),
            ("POST", pods.to_owned(), "{}", 0, RequestClass::Write),
            ("POST", format!("{pods}/p/exec?command=ls"), "", 0, RequestClass::TakesEffectElsewhere),
            ("GET", format!("{pods}/p/log"), "", UPGRADES, RequestClass::TakesEffectElsewhere),
            ("", "\u{0}".to_owned(), "", u32::MAX, RequestClass::Write),
        ] {
            let class = gate(method.as_bytes(), target.as_bytes(), body.as_bytes(), flags);
            assert_eq!(class, expected as u32, "{method} {target} {body}");
        }
    }
}
