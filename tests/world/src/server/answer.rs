//! Why a request was not executed, and the `Status` that reports it.

use http::{Response, StatusCode};
use serde_json::json;

use super::call::Call;
use super::{AnswerBody, respond};

/// A rejected request, which changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    code: StatusCode,
    reason: &'static str,
    message: String,
    /// The name, resource and group of the object, if the answer names one.
    object: Option<(String, &'static str, &'static str)>,
}

impl Refusal {
    pub(super) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { code, reason, message: message.into(), object: None }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(super) fn not_found(call: &Call, name: &str) -> Self {
        let qualified = call.kind.qualified();
        let (plural, group) = qualified.split_once('.').unwrap_or((qualified, ""));
        let object = Some((name.to_owned(), plural, group));
        Self { object, ..Self::new(404, "NotFound", format!("{qualified} {name:?} not found")) }
    }

    pub(super) fn unknown_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub(super) fn method_not_allowed(call: &Call) -> Self {
        Self::new(405, "MethodNotAllowed", format!("{} is not allowed here", call.method))
    }

    pub(super) fn unsupported_patch() -> Self {
        Self::new(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
    }

    pub(super) fn already_exists(call: &Call, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {name:?} already exists", call.kind.qualified()))
    }

    pub(super) fn conflict(call: &Call, name: &str, message: &str) -> Self {
        let operation = format!("Operation cannot be fulfilled on {} {name:?}: {message}", call.kind.qualified());
        Self::new(409, "Conflict", operation)
    }

    /// A version that this instance of the server does not have yet.
    pub(super) fn too_large(wanted: u64, known: u64) -> Self {
        Self::new(504, "Timeout", format!("Too large resource version: {wanted}, current: {known}"))
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }

    pub(super) fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// The same rejection, for an object that a patch has made.
    pub(super) fn of_patch(self) -> Self {
        if self.reason == "BadRequest" { Self::invalid(self.message) } else { self }
    }

    pub(super) fn response(self) -> Response<AnswerBody> {
        let Self { code, reason, message, object } = self;
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code.as_u16(),
        });
        if let Some((name, kind, group)) = object {
            status["details"] = json!({ "name": name, "kind": kind, "group": group });
        }
        respond(code, &status)
    }
}
