//! The events that a host reports.

use hustings_core::model::Cause;
use serde::Deserialize;

use crate::config::read_key;

/// What has happened before a step.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) event: Event,
    /// How long ago the work showed its last heartbeat, in microseconds.
    pub(crate) silence_us: Option<u64>,
}

/// An event. The numbers are those of requests.
#[derive(Debug)]
pub(crate) enum Event {
    Nothing,
    Answer { id: u64, status: u16, retry_after: Option<String> },
    Failed { id: u64, sent: bool, text: String },
    Line { id: u64 },
    End { id: u64, text: Option<String> },
    Key(Option<i64>),
    WorkStopped,
    Resign,
    Stop(Cause),
}

/// A head as a host passes it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawHead {
    event: Option<EventName>,
    id: Option<u64>,
    status: Option<u16>,
    retry_after: Option<String>,
    sent: Option<bool>,
    text: Option<String>,
    key: Option<String>,
    cause: Option<CauseName>,
    /// Negative if a beat came between the readings of the clock.
    silence_us: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum EventName {
    Answer,
    Failed,
    Line,
    End,
    Key,
    WorkStopped,
    Resign,
    Stop,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CauseName {
    Stopped,
    Panicked,
    WorkEnded,
    ConnectionClosed,
}

impl Head {
    pub(crate) fn read(head: &[u8]) -> Result<Self, String> {
        if head.is_empty() {
            return Ok(Self { event: Event::Nothing, silence_us: None });
        }
        // A text for people may have any bytes.
        let head = String::from_utf8_lossy(head);
        let raw: RawHead = serde_json::from_slice(head.as_bytes()).map_err(|error| format!("invalid head: {error}"))?;
        let required = |name: &str| format!("invalid head: the event needs the field {name}");
        let id = raw.id.ok_or_else(|| required("id"));
        let event = match raw.event {
            None => Event::Nothing,
            Some(EventName::Answer) => {
                let status = raw.status.ok_or_else(|| required("status"))?;
                Event::Answer { id: id?, status, retry_after: raw.retry_after }
            }
            Some(EventName::Failed) => {
                let sent = raw.sent.ok_or_else(|| required("sent"))?;
                Event::Failed { id: id?, sent, text: raw.text.unwrap_or_else(|| "no answer".to_owned()) }
            }
            Some(EventName::Line) => Event::Line { id: id? },
            Some(EventName::End) => Event::End { id: id?, text: raw.text },
            Some(EventName::Key) => Event::Key(raw.key.as_deref().map(read_key).transpose()?),
            Some(EventName::WorkStopped) => Event::WorkStopped,
            Some(EventName::Resign) => Event::Resign,
            Some(EventName::Stop) => Event::Stop(match raw.cause {
                None | Some(CauseName::Stopped) => Cause::Stopped,
                Some(CauseName::Panicked) => Cause::Panicked,
                Some(CauseName::WorkEnded) => Cause::WorkEnded,
                Some(CauseName::ConnectionClosed) => Cause::ConnectionClosed,
            }),
        };
        Ok(Self { event, silence_us: raw.silence_us.map(|silence| silence.max(0).unsigned_abs()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_people_or_a_matter_of_clocks_is_never_an_error() {
        for text in [&br#""refused""#[..], b"\"\xe4\"", b"null"] {
            let head =
                [br#"{"event": "failed", "id": 1, "sent": true, "silenceUs": -5, "text": "#, text, b"}"].concat();
            let read = Head::read(&head).unwrap();
            assert!(matches!(read, Head { event: Event::Failed { .. }, silence_us: Some(0) }), "{read:?}");
        }
    }
}
