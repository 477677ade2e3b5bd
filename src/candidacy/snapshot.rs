//! What is true of this replica at one instant.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use hustings_client::Leadership;
use serde::Serialize;

use crate::ops::http::{answer, refusal};

/// What this replica knows of itself and of the holder at the instant at which this is made.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Snapshot {
    /// The identity that holds the Lease, as far as is known here.
    pub(crate) holder: Option<String>,
    /// The identity of this replica.
    pub(crate) identity: String,
    /// Whether this replica leads.
    pub(crate) is_leader: bool,
    /// The number of its term.
    pub(crate) term: Option<u32>,
    /// The token of its term.
    pub(crate) token: Option<u64>,
    /// For how long it certainly leads unless it gives up; rounded down to a millisecond.
    pub(crate) valid_for_seconds: f64,
}

/// `/isleader`, for load balancers and readiness probes. `snapshot` returns what is true now, or `None` before the command
/// stands.
pub(crate) fn routes(snapshot: impl Fn() -> Option<Snapshot> + Clone + Send + Sync + 'static) -> Router {
    let is_leader = async move || match snapshot() {
        Some(snapshot) if snapshot.is_leader => answer(StatusCode::OK, &snapshot),
        Some(snapshot) => answer(StatusCode::SERVICE_UNAVAILABLE, &snapshot),
        None => refusal(StatusCode::SERVICE_UNAVAILABLE, "this replica does not stand yet"),
    };
    Router::new().route("/isleader", get(is_leader))
}

impl Snapshot {
    /// What is true now. A term that is about to be given up counts as over.
    pub(crate) fn now(leadership: &Leadership) -> Self {
        let term = leadership.term();
        // The end of a term is its cancellation, and comes before any validity of the next one. So a validity read
        // before a look that finds the term uncancelled is this term's.
        let remaining = leadership.remaining();
        let term = term.filter(|term| !remaining.is_zero() && !term.cancellation().is_cancelled());
        let identity = leadership.identity().to_owned();
        let holder = match &term {
            Some(_) => Some(identity.clone()),
            // A Lease that names this replica beyond its validity, or before its term, does not make it the leader.
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

    /// The holder, or an empty text.
    pub(crate) fn name(&self) -> &str {
        self.holder.as_deref().unwrap_or_default()
    }

    /// The same without the term that it leads.
    pub(crate) fn without_term(self) -> Self {
        let holder = self.holder.filter(|_| !self.is_leader);
        Self { holder, is_leader: false, term: None, token: None, valid_for_seconds: 0.0, ..self }
    }
}
