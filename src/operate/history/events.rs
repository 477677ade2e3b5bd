//! Reads the beginnings of terms from the events of a Lease.

use hustings_core::model::WireTime;
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;

use crate::base::cluster::Cluster;

/// The most events that are read.
const MOST: u32 = 500;

/// The reason of the events that report the start of a term. client-go uses the same reason.
const LEADER_ELECTION: &str = "LeaderElection";

/// The text after the name of the holder in the note of such an event.
const BECAME_LEADER: &str = " became leader";

/// The start of a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// The holder.
    pub(super) holder: String,
    /// When the event reported it.
    pub(super) at: WireTime,
}

/// Reads the events of the Lease.
pub(super) async fn read(cluster: &Cluster, lease: &str) -> kube::Result<Vec<Start>> {
    let events: Api<Event> = Api::namespaced(cluster.leases.clone(), &cluster.namespace);
    let of_lease = format!("reason={LEADER_ELECTION},regarding.kind=Lease,regarding.name={lease}");
    let listed = events.list(&ListParams::default().fields(&of_lease).limit(MOST)).await?;
    Ok(listed.items.iter().flat_map(starts).collect())
}

/// Returns the starts that one event reports. A repeated event is one object with the times of the first and the last
/// report.
fn starts(event: &Event) -> Vec<Start> {
    let Some(holder) = event.note.as_deref().and_then(|note| note.strip_suffix(BECAME_LEADER)) else {
        return Vec::new();
    };
    let time = |time: Timestamp| WireTime::from_micros(time.as_microsecond());
    let first = event.event_time.as_ref().map(|at| at.0);
    let first = first.or_else(|| event.deprecated_first_timestamp.as_ref().map(|at| at.0));
    let last = event.series.as_ref().map(|series| series.last_observed_time.0);
    let last = last.or_else(|| event.deprecated_last_timestamp.as_ref().map(|at| at.0));
    let mut times: Vec<WireTime> = first.into_iter().chain(last).map(time).collect();
    times.dedup();
    times.into_iter().map(|at| Start { holder: holder.to_owned(), at }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(event: serde_json::Value) -> Vec<(String, i64)> {
        let event: Event = serde_json::from_value(event).unwrap();
        starts(&event).into_iter().map(|start| (start.holder, start.at.as_micros() / 1_000_000)).collect()
    }

    #[test]
    fn an_event_shows_when_a_term_began() {
        let metadata = json!({ "name": "e" });
        let (first, last) = ("1970-01-01T00:00:01.000000Z", "1970-01-01T00:00:09.000000Z");
        let once = json!({ "metadata": metadata, "note": "web-1 became leader", "eventTime": first });
        assert_eq!(read(once.clone()), [("web-1".to_owned(), 1)]);
        let mut twice = once.clone();
        twice["series"] = json!({ "count": 2, "lastObservedTime": last });
        assert_eq!(read(twice), [("web-1".to_owned(), 1), ("web-1".to_owned(), 9)]);
        let by_client_go = json!({ "metadata": metadata, "note": "web_2 became leader", "eventTime": null,
            "deprecatedFirstTimestamp": "1970-01-01T00:00:05Z", "deprecatedLastTimestamp": "1970-01-01T00:00:05Z" });
        assert_eq!(read(by_client_go.clone()), [("web_2".to_owned(), 5)]);
        let mut twice = by_client_go;
        twice["deprecatedLastTimestamp"] = json!("1970-01-01T00:00:09Z");
        assert_eq!(read(twice), [("web_2".to_owned(), 5), ("web_2".to_owned(), 9)]);
    }

    #[test]
    fn an_event_that_reports_no_term_is_skipped() {
        for note in [json!("web-1 stopped leading"), json!(null)] {
            let event = json!({ "metadata": {}, "note": note, "eventTime": "1970-01-01T00:00:01.000000Z" });
            assert_eq!(read(event), []);
        }
        assert_eq!(read(json!({ "metadata": {}, "note": "web-1 became leader", "eventTime": null })), []);
    }
}
