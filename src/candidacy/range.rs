//! The wall-clock time that this replica may call its own, for a program that decides by a point's own time instead of by
//! which replica leads now: see `docs/guides/time-range.md`.
//!
//! The rule that must hold is the library's: `contains` is its answer, evaluated when the response is written. The bounds
//! are for display. A program that compares with them itself loses the guarantee, because the end is in the future.

use axum::Router;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use hustings_client::{Leadership, TimeRange};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ops::http::{answer, refusal};

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

/// `/range`. `leadership` returns that of the elector that stands now or stood last, or `None` before the first one.
pub(crate) fn routes(leadership: impl Fn() -> Option<Leadership> + Clone + Send + Sync + 'static) -> Router {
    let range = async move |query| range(leadership().as_ref(), query);
    Router::new().route("/range", get(range))
}

fn range(leadership: Option<&Leadership>, query: Result<Query<Asked>, QueryRejection>) -> Response {
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
            let contains = instant.map(|instant| leadership.is_some_and(|leadership| leadership.contains(instant)));
            let range = leadership.and_then(Leadership::range).map(Bounds::from);
            answer(StatusCode::OK, &Answer { contains, range })
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
