//! A snapshot of this replica and of the holder, and the route `/isleader`.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use hustings_client::Leadership;
use serde::Serialize;

use crate::serve::http::{answer, refusal};

/// The state of this replica and of the holder at one instant, as far as this replica knows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Snapshot {
    /// The identity of the holder, as far as this replica knows.
    pub(crate) holder: Option<String>,
    /// The identity of this replica.
    pub(crate) identity: String,
    /// Whether this replica leads.
    pub(crate) is_leader: bool,
    /// The number of its term.
    pub(crate) term: Option<u32>,
    /// The token of its term.
    pub(crate) token: Option<u64>,
    /// How long this replica certainly leads unless it gives up the Lease, rounded down to a millisecond.
    pub(crate) valid_for_seconds: f64,
}

/// The route `/isleader`, for load balancers and readiness probes. `snapshot` returns the current one, or `None`
/// before the command stands for the Lease.
pub(crate) fn routes(snapshot: impl Fn() -> Option<Snapshot> + Clone + Send + Sync + 'static) -> Router {
    let is_leader = async move || match snapshot() {
        Some(snapshot) if snapshot.is_leader => answer(StatusCode::OK, &snapshot),
        Some(snapshot) => answer(StatusCode::SERVICE_UNAVAILABLE, &snapshot),
        None => refusal(StatusCode::SERVICE_UNAVAILABLE, "this replica does not stand for the Lease yet"),
    };
    Router::new().route("/isleader", get(is_leader))
}

impl Snapshot {
    /// Takes a snapshot. A term that this replica is about to give up counts as over.
    pub(crate) fn now(leadership: &Leadership) -> Self {
        let term = leadership.term();
        // The cancellation of a term precedes any validity of the next term. If the term is still not cancelled after
        // the validity was read, that validity therefore belongs to this term.
        let remaining = leadership.remaining();
        let term = term.filter(|term| !remaining.is_zero() && !term.cancellation().is_cancelled());
        let identity = leadership.identity().to_owned();
        let holder = match &term {
            Some(_) => Some(identity.clone()),
            // This replica does not lead if the Lease names it before its term or after its validity.
            None => leadership.holder().filter(|holder| *holder != identity),
        };
        let millis = u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX);
        Self {
            holder,
            identity,
            is_leader: term.is_some(),
            term: term.as_ref().map(|term| term.number),
            token: term.as_ref().map(|term| term.token),
            valid_for_seconds: term.map_or(0.0, |_| std::time::Duration::from_millis(millis).as_secs_f64()),
        }
    }

    /// The holder, or an empty string if none is known.
    pub(crate) fn name(&self) -> &str {
        self.holder.as_deref().unwrap_or_default()
    }

    /// The same snapshot, but without this replica's term.
    pub(crate) fn without_term(self) -> Self {
        let holder = self.holder.filter(|_| !self.is_leader);
        Self { holder, is_leader: false, term: None, token: None, valid_for_seconds: 0.0, ..self }
    }
}

#[cfg(test)]
mod tests {
    use hustings_client::testing::MemoryStore;
    use hustings_client::{Elector, Term};
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::serve::http::testing::{ask, json_of};

    #[tokio::test(start_paused = true)]
    async fn a_term_that_must_stop_is_no_longer_shown_although_it_is_still_renewed() {
        let (store, shutdown) = (MemoryStore::new(), CancellationToken::new());
        let elector = Elector::direct(&store, "n", "l").identity("a").shutdown(&shutdown).build().unwrap();
        let leadership = elector.leadership();
        let work = async |term: Term| {
            let shown = &leadership;
            let leads = Snapshot::now(shown);
            assert_eq!((leads.holder.as_deref(), leads.is_leader), (Some("a"), true));
            assert_eq!((leads.term, leads.token), (Some(term.number), Some(term.token)));
            assert!(leads.valid_for_seconds > 0.0 && leads.valid_for_seconds <= 10.0, "{leads:?}");
            shutdown.cancel();
            term.cancelled().await;
            assert!(!shown.remaining().is_zero(), "the Lease is kept until the work has stopped");
            let stopping = Snapshot::now(shown);
            assert_eq!((&stopping, stopping.name()), (&leads.without_term(), ""));
        };
        elector.run(work).await.unwrap();
        assert!(!Snapshot::now(&leadership).is_leader);
    }

    #[tokio::test]
    async fn only_a_leader_answers_that_it_is_ready() {
        let snapshot = |is_leader| Snapshot {
            holder: Some("b".to_owned()),
            identity: "a".to_owned(),
            is_leader,
            term: Some(1),
            token: Some(7),
            valid_for_seconds: 1.5,
        };
        let body = |is_leader| {
            json!({ "holder": "b", "identity": "a", "isLeader": is_leader, "term": 1, "token": 7,
            "validForSeconds": 1.5 })
        };
        let unknown = json!({ "error": "this replica does not stand for the Lease yet" });
        for (known, code, expected) in
            [(Some(snapshot(true)), 200, body(true)), (Some(snapshot(false)), 503, body(false)), (None, 503, unknown)]
        {
            let answer = ask(&routes(move || known.clone()), "/isleader").await;
            assert_eq!(json_of(answer).await, (code, expected));
        }
    }
}
