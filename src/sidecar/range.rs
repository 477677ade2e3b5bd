//! The wall-clock time that this replica may call its own, for a program that decides by a point's own time instead of by
//! who leads now: see `docs/guides/time-range.md`.
//!
//! The rule that must hold is the library's: `contains` is its answer, made when it is written. The bounds are there to be
//! looked at; a program that compares with them by itself loses what the library promises, since an end lies ahead.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use hustings_client::{Leadership, TimeRange};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::routes::answer;
use crate::ops::http::refusal;

#[derive(Deserialize)]
struct Asked {
    instant: Option<String>,
}

/// The whole answer.
#[derive(Serialize)]
struct Answer {
    /// Whether the instant that was asked for is this replica's own; absent where none was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    contains: Option<bool>,
    /// The range of the last term; null where this replica has not led.
    range: Option<Bounds>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bounds {
    /// The first instant; null where there is no election.
    start: Option<String>,
    /// The first instant that is not this replica's own any more unless it renews; null where there is no end.
    end: Option<String>,
    /// The range has gone on after its end, and another replica's may overlap it.
    failing_open: bool,
}

pub(super) fn routes(leadership: &Leadership) -> Router {
    Router::new().route("/range", get(range)).with_state(leadership.clone())
}

async fn range(State(leadership): State<Leadership>, query: Result<Query<Asked>, QueryRejection>) -> Response {
    let instant = match query.map(|Query(Asked { instant })| instant) {
        Ok(None) => Ok(None),
        Ok(Some(text)) => match text.parse::<Timestamp>() {
            Ok(instant) => Ok(Some(instant)),
            Err(_) => Err(format!("{text:?} is no time such as 2026-11-23T09:00:00.5Z")),
        },
        Err(rejection) => Err(rejection.body_text()),
    };
    match instant {
        Ok(instant) => {
            let contains = instant.map(|instant| leadership.contains(instant));
            answer(StatusCode::OK, &Answer { contains, range: leadership.range().map(Bounds::from) })
        }
        Err(reason) => refusal(StatusCode::BAD_REQUEST, &format!("instant: {reason}")),
    }
}

impl From<TimeRange> for Bounds {
    fn from(range: TimeRange) -> Self {
        let TimeRange { start, end, is_failing_open } = range;
        let start = (range != TimeRange::ALWAYS).then(|| shown(start));
        Self { start, end: end.map(shown), failing_open: is_failing_open }
    }
}

fn shown(time: Timestamp) -> String {
    format!("{time:.6}")
}
