//! `/range`: the wall-clock time that this replica owns, for programs that decide by a data point's own time.
//!
//! `docs/guides/time-range.md` describes its use. `contains` is computed when the response is written. The bounds are
//! for display only. A program that compares an instant with them itself loses the guarantee, because the end lies in
//! the future.

use axum::Router;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use hustings_client::{Leadership, TimeRange};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::serve::http::{answer, refusal};

#[derive(Deserialize)]
struct RangeQuery {
    instant: Option<String>,
}

/// The body of the answer.
#[derive(Serialize)]
struct RangeAnswer {
    /// Whether this replica owns the instant in the query; absent if the query has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    contains: Option<bool>,
    /// The range of the last term; null if this replica has not led.
    range: Option<RangeBounds>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RangeBounds {
    /// The first instant of the range; null without an election.
    start: Option<String>,
    /// The first instant after the range, unless the replica renews; null if the range has no end.
    end: Option<String>,
    /// Whether the range continues after its end, so that another replica's range may overlap it.
    failing_open: bool,
}

/// The route `/range`. `leadership` returns the leadership of the last elector that led, or `None` before the first
/// one.
pub(crate) fn routes(leadership: impl Fn() -> Option<Leadership> + Clone + Send + Sync + 'static) -> Router {
    let range = async move |query| range(leadership().as_ref(), query);
    Router::new().route("/range", get(range))
}

fn range(leadership: Option<&Leadership>, query: Result<Query<RangeQuery>, QueryRejection>) -> Response {
    let instant = match query.map(|Query(RangeQuery { instant })| instant) {
        Ok(None) => Ok(None),
        Ok(Some(text)) => match text.parse::<Timestamp>() {
            Ok(instant) => Ok(Some(instant)),
            Err(_) => Err(format!("{text:?} is not a time: use a form such as 2026-11-23T09:00:00.5Z")),
        },
        Err(rejection) => Err(rejection.body_text()),
    };
    match instant {
        Ok(instant) => {
            let contains = instant.map(|instant| leadership.is_some_and(|leadership| leadership.contains(instant)));
            let range = leadership.and_then(Leadership::range).map(RangeBounds::from);
            answer(StatusCode::OK, &RangeAnswer { contains, range })
        }
        Err(reason) => refusal(StatusCode::BAD_REQUEST, &format!("instant: {reason}")),
    }
}

impl From<TimeRange> for RangeBounds {
    fn from(range: TimeRange) -> Self {
        let TimeRange { start, end, is_failing_open } = range;
        let start = (range != TimeRange::ALWAYS).then(|| shown(start));
        Self { start, end: end.map(shown), failing_open: is_failing_open }
    }
}

fn shown(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use hustings_client::Elector;
    use hustings_client::testing::MemoryStore;
    use serde_json::json;

    use super::*;
    use crate::serve::http::testing::{ask, json_of};

    #[test]
    fn a_range_shows_only_the_bounds_that_it_has() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let range = |end, is_failing_open| TimeRange { start: at(1), end, is_failing_open };
        let (start, end) = ("1970-01-01T00:00:01.000000Z", "1970-01-01T00:00:09.000000Z");
        for (range, expected) in [
            (TimeRange::ALWAYS, json!({ "start": null, "end": null, "failingOpen": false })),
            (range(Some(at(9)), false), json!({ "start": start, "end": end, "failingOpen": false })),
            (range(None, true), json!({ "start": start, "end": null, "failingOpen": true })),
        ] {
            assert_eq!(serde_json::to_value(RangeBounds::from(range)).unwrap(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_instant_is_answered_and_nonsense_is_refused_with_a_reason() {
        let elector = Elector::direct(&MemoryStore::new(), "n", "l").identity("a").build().unwrap();
        let leadership = elector.leadership();
        let answer = async |known: Option<Leadership>, query: &str| {
            json_of(ask(&routes(move || known.clone()), &format!("/range{query}")).await).await
        };
        let past = "?instant=2026-11-23T09:00:00.5Z";
        for known in [None, Some(leadership.clone())] {
            assert_eq!(answer(known.clone(), "").await, (200, json!({ "range": null })));
            assert_eq!(answer(known, past).await, (200, json!({ "contains": false, "range": null })));
        }
        let campaign = elector.start();
        leadership.wait_until_leader().await.unwrap();
        let (code, owned) = answer(Some(leadership.clone()), "").await;
        let start = owned["range"]["start"].as_str().unwrap();
        assert_eq!((code, owned["contains"].is_null()), (200, true), "{owned}");
        let (_, contained) = answer(Some(leadership.clone()), &format!("?instant={start}")).await;
        assert_eq!(contained["contains"], json!(true), "{contained}");
        let reason = r#"instant: "noon" is not a time: use a form such as 2026-11-23T09:00:00.5Z"#;
        assert_eq!(answer(Some(leadership.clone()), "?instant=noon").await, (400, json!({ "error": reason })));
        let (code, refused) = answer(Some(leadership), "?instant=a&instant=b").await;
        assert_eq!(code, 400);
        assert!(refused["error"].as_str().unwrap().starts_with("instant: "), "{refused}");
        drop(campaign);
    }
}
