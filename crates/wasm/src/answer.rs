//! The answers to a host, as JSON. A field without content is left out: to write and to read it would take time in each
//! step.

use std::borrow::Cow;
use std::ops::Not;
use std::time::Duration;

use hustings_core::elector::{self, NoteSeverity};
use hustings_core::model::{Moment, WireTime};
use hustings_wire::driver::{self, Field, Line};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Later instants are never reached, and not every language represents them.
const LATEST: Moment = Moment::from_micros(1 << 53);

/// The answer to `hustings_new`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Created {
    pub(crate) elector: u32,
    pub(crate) session: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lock: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    pub(crate) longest_write_us: u64,
}

/// The answer to `hustings_step`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is something to do")]
pub(crate) struct Decision {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) leading: Option<Leading>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<Range>,
    #[serde(skip_serializing_if = "Not::not")]
    pub(crate) stop_work: bool,
    #[serde(skip_serializing_if = "Not::not")]
    pub(crate) abort_work: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) requests: Vec<HttpRequest>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) cancel: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holder: Option<Holder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holder_change: Option<HolderChange>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) lease_uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) obstacle: Option<Obstacle>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) renewal: Option<Renewal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline_us: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timer: Option<&'static str>,
    #[serde(skip_serializing_if = "Not::not")]
    pub(crate) awaits_beat: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<Note>,
    #[serde(skip_serializing_if = "Not::not")]
    pub(crate) finished: bool,
}

/// A running term.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Leading {
    number: u32,
    token: String,
    valid_until_us: i64,
}

/// The wall-clock time that the last term owns.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the unit of each is part of the interface")]
pub(crate) struct Range {
    start_us: i64,
    end_us: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    fails_open_until_us: Option<i64>,
}

/// The end of a renewal.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Renewal {
    took_us: u64,
    succeeded: bool,
}

/// A line for the log.
#[derive(Debug, Serialize)]
pub(crate) struct Note {
    level: &'static str,
    code: &'static str,
    text: Cow<'static, str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    fields: Map<String, Value>,
}

/// A request to send.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HttpRequest {
    pub(crate) id: u64,
    pub(crate) purpose: &'static str,
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until_us: Option<i64>,
    #[serde(skip_serializing_if = "Not::not")]
    pub(crate) stream: bool,
}

/// Who holds the Lease.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Holder {
    pub(crate) identity: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at_us: Option<i64>,
}

/// A change of the holder.
#[derive(Debug, Serialize)]
pub(crate) struct HolderChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) former: Option<String>,
    pub(crate) holder: String,
}

/// Why this elector cannot lead until a person acts.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Obstacle {
    pub(crate) lease_name: String,
    pub(crate) text: String,
}

/// The text of an answer.
pub(crate) fn text(answer: &impl Serialize) -> String {
    serde_json::to_string(answer).unwrap_or_else(|error| json!({ "error": error.to_string() }).to_string())
}

/// An instant; `None` if it is never reached.
pub(crate) fn instant(moment: Moment) -> Option<i64> {
    (moment < LATEST).then_some(moment.as_micros())
}

/// A duration in microseconds.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl From<elector::Leading> for Leading {
    fn from(elector::Leading { number, token, valid_until }: elector::Leading) -> Self {
        Self { number, token: token.to_string(), valid_until_us: valid_until.as_micros() }
    }
}

impl From<elector::Range> for Range {
    fn from(elector::Range { start, end, fails_open_until }: elector::Range) -> Self {
        let fails_open_until_us = fails_open_until.map(WireTime::as_micros);
        Self { start_us: start.as_micros(), end_us: end.as_micros(), fails_open_until_us }
    }
}

impl From<driver::Holder> for Holder {
    fn from(driver::Holder { identity, expires_at }: driver::Holder) -> Self {
        Self { identity, expires_at_us: instant(expires_at) }
    }
}

impl From<driver::Obstacle> for Obstacle {
    fn from(obstacle: driver::Obstacle) -> Self {
        let text = obstacle.to_string();
        let driver::Obstacle::CandidateOfAnotherLease { other, .. } = obstacle;
        Self { lease_name: other, text }
    }
}

impl From<driver::Renewal> for Renewal {
    fn from(driver::Renewal { took, succeeded }: driver::Renewal) -> Self {
        Self { took_us: micros(took), succeeded }
    }
}

impl From<Line> for Note {
    fn from(Line { severity, code, text, fields }: Line) -> Self {
        let level = match severity {
            NoteSeverity::Debug => "debug",
            NoteSeverity::Info => "info",
            NoteSeverity::Warning => "warn",
            NoteSeverity::Error => "error",
        };
        let fields = fields.iter().map(|(name, value)| (camel_case(name), field(name, value))).collect();
        Self { level, code, text, fields }
    }
}

fn field(name: &str, value: &Field) -> Value {
    match value {
        Field::Text(text) => json!(text),
        // It may be beyond the numbers that every language represents.
        Field::Number(number) if name == "token" => json!(number.to_string()),
        Field::Number(number) => json!(number),
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at_checked(1).unwrap_or_default();
        camel.push_str(&first.to_ascii_uppercase());
        camel.push_str(rest);
    }
    camel
}
