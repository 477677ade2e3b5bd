//! A sidecar that stands while its program is connected.
//!
//! The program holds a stream of [`/term`](super::term) open. When the program dies, the kernel closes the connection,
//! and the sidecar releases the Lease at once. These rules must hold:
//!
//! - The sidecar gives up the Lease only after the client has closed the connection. A connection that ended in another
//!   way proves nothing, so the sidecar lets the Lease expire.
//! - A connection has at most one term. After that term, the sidecar does not stand again until the client is gone.
//!
//! Each connection therefore has its own elector, which ends with the connection or with its term.

use std::convert::Infallible;
use std::sync::OnceLock;
use std::time::Instant;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use hustings_client::model::Cause;
use hustings_client::{Leadership, Term};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::common::{Endpoints, Sidecar};
use super::label::Keeper;
use super::term::{self, Client};
use crate::candidacy::range;
use crate::candidacy::snapshot::{self, Snapshot};
use crate::ops::http::{answer, refusal};
use crate::ops::metrics::{ReleaseCause, ReleaseMetrics};

/// Stands for one client after another.
struct Standing<'a> {
    sidecar: &'a Sidecar<'a>,
    releases: ReleaseMetrics,
    label: Option<Keeper>,
    /// The leadership of the current elector, or of the last one.
    leadership: watch::Sender<Option<Leadership>>,
}

/// When and why a client closed its connection during its term.
type Close = OnceLock<(Instant, ReleaseCause)>;

/// Stands for each client until the sidecar is stopped.
pub(super) async fn run(sidecar: &Sidecar<'_>, endpoints: Endpoints, releases: ReleaseMetrics) -> anyhow::Result<()> {
    let (leadership, current) = watch::channel(None::<Leadership>);
    let snapshot = {
        let current = current.clone();
        move || current.borrow().as_ref().map(Snapshot::now)
    };
    let heartbeat = sidecar.candidacy.timing.retry_period();
    let (term, clients) = term::route(heartbeat, &sidecar.shutdown, &sidecar.over);
    let program = term.merge(leader(snapshot.clone())).merge(range::routes(move || current.borrow().clone()));
    let label = sidecar.start(endpoints, program, snapshot::routes(snapshot)).await?;
    let standing = Standing { sidecar, releases, label, leadership };
    let ended = tokio::select! {
        ended = standing.serve(clients) => ended,
        never = sidecar.health.keep_beating() => match never {},
    };
    sidecar.finish().await;
    ended
}

/// The route `/leader`.
fn leader(snapshot: impl Fn() -> Option<Snapshot> + Clone + Send + Sync + 'static) -> Router {
    let leader = async move || match snapshot() {
        Some(snapshot) => answer(StatusCode::OK, &snapshot),
        None => refusal(StatusCode::SERVICE_UNAVAILABLE, "no client has connected to /term yet"),
    };
    Router::new().route("/leader", get(leader))
}

impl Standing<'_> {
    async fn serve(&self, mut clients: mpsc::Receiver<Client>) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                biased;
                () = self.sidecar.shutdown.cancelled() => return Ok(()),
                // This branch always stays enabled, since the server keeps the sender until it ends.
                Some(client) = clients.recv() => self.stand(client).await?,
            }
        }
    }

    /// Stands for one client. Returns when the client is gone and its term is over.
    async fn stand(&self, client: Client) -> anyhow::Result<()> {
        let stop = self.sidecar.shutdown.child_token();
        let elector = self.sidecar.elector(&stop)?;
        let leadership = elector.leadership();
        self.leadership.send_replace(Some(leadership.clone()));
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
            && leadership.holder().as_deref() != Some(leadership.identity())
        {
            self.releases.observe(*cause, at.elapsed());
        }
        tokio::select! {
            () = client.peer.disconnected() => {}
            // The client may not have closed the connection within its grace.
            () = self.sidecar.shutdown.cancelled() => {}
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
        client.begin(term.clone(), leadership.clone());
        let cause = tokio::select! {
            biased;
            () = client.peer.closed() => {
                // Set the cause here as well: this work may end before `disconnection` stops the elector.
                leadership.set_stop_cause(Cause::ConnectionClosed);
                ReleaseCause::ConnectionClosed
            }
            () = term.cancelled() => {
                tracing::info!("waiting until the client closes the connection");
                ReleaseCause::Stopping
            }
        };
        let closed = async {
            client.peer.closed().await;
            // A connection has at most one term.
            close.get_or_init(|| (Instant::now(), cause));
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
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use axum::Extension;
    use axum::body::Body;
    use axum::http::Request;
    use hustings_client::metrics::Metrics;
    use hustings_client::{FailOpen, Timing};
    use serde_json::json;
    use tokio_util::task::TaskTracker;
    use tower::util::ServiceExt as _;

    use super::*;
    use crate::access::Access;
    use crate::candidacy::{Candidacy, Connection};
    use crate::cluster::testing::cluster;
    use crate::ops::health::Health;
    use crate::ops::http::Peer;
    use crate::ops::metrics;
    use crate::sidecar::{Pod, PodLabel};

    /// Without an election, each client leads at once.
    fn candidacy() -> Candidacy {
        Candidacy {
            lease: "l".to_owned(),
            identity: Some("a".to_owned()),
            binary_version: None,
            emulation_version: None,
            strategy: None,
            priority: None,
            direct: true,
            key: None,
            fallback: true,
            leader_elect: false,
            keep_on_stop: false,
            timing: Timing::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_label_goes_and_the_release_is_measured_once_the_client_has_closed_its_connection() {
        for (stops, expected) in [(false, [1, 0]), (true, [0, 1])] {
            let (shutdown, over) = (CancellationToken::new(), CancellationToken::new());
            let peer = Peer::default();
            let (router, mut clients) = term::route(Duration::from_secs(2), &shutdown, &over);
            let request = Request::get("/term").body(Body::empty()).unwrap();
            let _stream = tokio::spawn(router.layer(Extension(peer.clone())).oneshot(request));
            let client = clients.recv().await.unwrap();

            let (cluster, requests) = cluster(|_| Some((200, json!({ "metadata": { "name": "p" } }))));
            let pod = Pod { name: "p".to_owned(), namespace: "n".to_owned(), uid: None };
            let label = Keeper::start(cluster.leases, PodLabel::read("leader=true").unwrap(), pod).await.unwrap();
            let labelled = || requests.lock().unwrap().last().unwrap().body["metadata"]["labels"]["leader"] == "true";
            let mut registry = metrics::registry();
            let releases = ReleaseMetrics::register(&mut registry);
            let (access, health) = (Access::default(), Health::new());
            let sidecar = Sidecar {
                access: &access,
                candidacy: candidacy(),
                connection: Connection::NotNeeded { namespace: "n".to_owned() },
                pod_label: None,
                fail_open: FailOpen::Off,
                registry: Arc::default(),
                metrics: Metrics::default(),
                elector_runs: health.check("elector"),
                health,
                shutdown: shutdown.clone(),
                over,
                servers: TaskTracker::new(),
            };
            let standing =
                Standing { sidecar: &sidecar, releases, label: Some(label), leadership: watch::channel(None).0 };
            let mut current = standing.leadership.subscribe();
            let program = async {
                let leadership = current.wait_for(Option::is_some).await.unwrap().clone().unwrap();
                leadership.wait_until_leader().await.unwrap();
                while !labelled() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                if stops {
                    shutdown.cancel();
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    assert!(!leadership.remaining().is_zero(), "the Lease is kept until the client closes");
                }
                peer.close();
            };
            let (stood, ()) = tokio::join!(standing.stand(client), program);
            stood.unwrap();
            assert!(!labelled());
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            let counts = ["connection-closed", "stopping"].map(|cause| {
                let series = format!("hustings_sidecar_release_seconds_count{{cause=\"{cause}\"}} ");
                text.lines().find_map(|line| line.strip_prefix(&*series)).unwrap().parse::<u32>().unwrap()
            });
            assert_eq!(counts, expected, "{text}");
        }
    }
}
