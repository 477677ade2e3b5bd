//! A sidecar that stands while its program is connected.
//!
//! The program holds a stream of [`/term`](super::term) open. When the program dies, the kernel closes the connection,
//! and the sidecar releases the Lease at once. These rules must hold:
//!
//! - The sidecar gives up the Lease only after the client has closed the connection. A connection that ended in another
//!   way proves nothing, so the sidecar lets the Lease expire.
//! - A connection has at most one term. After that term, the sidecar does not stand again until the client is gone.
//!
//! Each connection therefore has its own elector, which ends with the connection or with its term. The sidecar keeps the
//! time range of a former connection until a later one has a term.

use std::convert::Infallible;
use std::sync::OnceLock;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use hustings_client::model::Cause;
use hustings_client::{Leadership, Term};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::common::{Endpoints, Sidecar};
use super::label::Keeper;
use super::term::{self, Client};
use crate::serve::http::{answer, refusal};
use crate::serve::metrics::ReleaseMetrics;
use crate::stand::candidacy::succession::Succession;

/// Stands for one client after another.
struct ConnectedSidecar<'a> {
    sidecar: &'a Sidecar<'a>,
    releases: ReleaseMetrics,
    label: Option<Keeper>,
    electors: Succession,
}

/// When and why a client closed its connection, if the Lease is given up then.
type Close = OnceLock<(Instant, Cause)>;

/// Stands for each client until the sidecar is stopped.
pub(super) async fn run(sidecar: &Sidecar<'_>, endpoints: Endpoints, releases: ReleaseMetrics) -> anyhow::Result<()> {
    let electors = Succession::default();
    let heartbeat = sidecar.config.candidacy.timing.retry_period();
    let (term, clients) = term::route(heartbeat, &sidecar.runtime.shutdown, &sidecar.runtime.over);
    let program = term.merge(leader(electors.clone())).merge(electors.range());
    let label = sidecar.start(endpoints, program, electors.is_leader()).await?;
    let standing = ConnectedSidecar { sidecar, releases, label, electors };
    let ended = tokio::select! {
        ended = standing.serve(clients) => ended,
        never = sidecar.runtime.health.keep_beating() => match never {},
    };
    sidecar.finish().await;
    ended
}

/// The route `/leader`.
fn leader(electors: Succession) -> Router {
    let leader = async move || match electors.snapshot() {
        Some(snapshot) => answer(StatusCode::OK, &snapshot),
        None => refusal(StatusCode::SERVICE_UNAVAILABLE, "no client has connected to /term yet"),
    };
    Router::new().route("/leader", get(leader))
}

impl ConnectedSidecar<'_> {
    async fn serve(&self, mut clients: mpsc::Receiver<Client>) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                biased;
                () = self.sidecar.runtime.shutdown.cancelled() => return Ok(()),
                // This branch always stays enabled, since the server keeps the sender until it ends.
                Some(client) = clients.recv() => self.stand(client).await?,
            }
        }
    }

    /// Stands for one client. Returns when its term is over, or when it is gone without one. The route accepts no other
    /// client before this one is gone.
    async fn stand(&self, client: Client) -> anyhow::Result<()> {
        let stop = self.sidecar.runtime.shutdown.child_token();
        let elector = self.sidecar.elector(&stop)?;
        let leadership = elector.leadership();
        self.electors.stands(leadership.clone());
        tracing::info!(lease = leadership.lease(), identity = leadership.identity(), "standing for a client");
        let close = Close::new();
        let campaign = elector.run(|term| self.lead(term, &client, leadership.clone(), stop.clone(), &close));
        let disconnection = async {
            client.peer.disconnected().await;
            leadership.set_stop_cause(Cause::ConnectionClosed);
            stop.cancel();
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            ended = campaign => ended?,
            never = disconnection => match never {},
        }
        if let Some((at, cause)) = close.get()
            && !self.sidecar.config.candidacy.keep_on_stop
        {
            self.releases.observe(*cause, at.elapsed());
        }
        tracing::info!("no longer standing for the client");
        Ok(())
    }

    /// The work of a term. It ends when the client has closed the connection.
    async fn lead(&self, term: Term, client: &Client, leadership: Leadership, stop: CancellationToken, close: &Close) {
        // However the work ends, this elector begins no other term. That includes work that is dropped after its grace.
        let _stop = stop.drop_guard();
        if let Some(label) = &self.label {
            label.put_on();
        }
        // Before the client learns of the term, since it may ask for the range at once.
        self.electors.leads(leadership.clone());
        client.begin(term.clone(), leadership.clone());
        let cause = tokio::select! {
            biased;
            () = client.peer.closed() => {
                // Set the cause here as well: this work may end before `disconnection` stops the elector.
                leadership.set_stop_cause(Cause::ConnectionClosed);
                Cause::ConnectionClosed
            }
            () = term.cancelled() => {
                tracing::info!("waiting until the client closes the connection");
                Cause::Stopped
            }
        };
        let closed = async {
            client.peer.closed().await;
            // A Lease that is lost is not given up.
            if leadership.is_leader() {
                // A connection has at most one term.
                close.get_or_init(|| (Instant::now(), cause));
            }
            tracing::info!("the client has closed the connection");
        };
        let taken_off = async {
            if let Some(label) = &self.label {
                label.take_off().await;
            }
        };
        tokio::join!(closed, taken_off);
    }
}

#[cfg(test)]
mod tests;
