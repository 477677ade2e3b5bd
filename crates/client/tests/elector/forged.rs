//! A proxy between an elector and the API server that answers 404 itself.

use std::sync::{Arc, Mutex};

use anyhow::{Result, ensure};
use http::{Method, Request, Response, StatusCode};
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::{Elector, lease_client};
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::coordinated::grant;
use super::stage::{LEASE, LONG, Stage, eventually, leads};

/// The name of the elector's candidate.
const NAME: &str = "a";

/// Forwards requests, except those that it is told to answer with 404.
#[derive(Clone, Default)]
struct Proxy(Arc<Mutex<Log>>);

#[derive(Default)]
struct Log {
    /// The requests to answer with 404, each once.
    due: Vec<(Method, String)>,
    /// The paths of all creations.
    creations: Vec<String>,
}

impl Proxy {
    fn before(&self, client: Client) -> Client {
        let proxy = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, proxy) = (client.clone(), proxy.clone());
            async move {
                // Without a watch of the Lease, the elector observes a change only by a conflict and a read.
                let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
                if is_watch && request.uri().path().contains("/leases") {
                    std::future::pending::<()>().await;
                }
                if proxy.answers(&request) {
                    let page = Body::from("<html><body>Not Found</body></html>".as_bytes().to_vec());
                    return Ok(Response::builder().status(StatusCode::NOT_FOUND).body(page)?);
                }
                Ok::<_, tower::BoxError>(client.send(request).await?)
            }
        });
        Client::new(service, "default")
    }

    fn answers(&self, request: &Request<Body>) -> bool {
        let (method, path) = (request.method(), request.uri().path());
        let mut log = self.0.lock().expect("no holder panics");
        if method == Method::POST {
            log.creations.push(path.to_owned());
        }
        let place = log.due.iter().position(|due| due.0 == method && path.ends_with(&due.1));
        place.map(|place| log.due.swap_remove(place)).is_some()
    }

    /// Makes the proxy answer each of these requests with 404 once.
    fn answer(&self, due: &[(Method, &str)]) {
        self.0.lock().expect("no holder panics").due =
            due.iter().map(|(method, object)| (method.clone(), (*object).to_owned())).collect();
    }

    /// Waits until the proxy has answered all requests of this method.
    async fn has_answered(&self, method: Method) -> Result<()> {
        let is_due = || self.0.lock().expect("no holder panics").due.iter().any(|due| due.0 == method);
        eventually(&format!("{method} is answered"), || async { (!is_due()).then_some(()) }).await
    }
}

#[tokio::test]
async fn a_proxy_that_answers_404_once_ends_no_term_and_forgets_no_candidate() -> Result<()> {
    let stage = Stage::with_candidates("forged").await?;
    let proxy = Proxy::default();
    let client = proxy.before(lease_client(stage.plane.config())?);
    let elector = Elector::coordinated(client, &stage.namespace, LEASE, "1.2.0").identity(NAME).timing(LONG);
    let campaign = elector.build()?.start();
    stage.candidate_where(NAME, "it stands", |_| true).await?;
    grant(&stage, NAME).await?;
    let leadership = campaign.leadership();
    let term = leads(&leadership).await?;
    let uid = stage.candidates().get(NAME).await?.record.uid;
    let before = proxy.0.lock().expect("no holder panics").creations.len();
    let (lease, candidate) = (format!("/leases/{LEASE}"), format!("/leasecandidates/{NAME}"));
    let renewed = async || {
        let former = stage.lease().await?.record.renew_time;
        stage.lease_where("it renews", |lease| lease.record.renew_time > former).await?;
        anyhow::Ok(())
    };

    // A renewal.
    proxy.answer(&[(Method::PATCH, &lease)]);
    proxy.has_answered(Method::PATCH).await?;
    renewed().await?;
    ensure!(leadership.term().as_ref() == Some(&term), "a renewal ended the term");

    // A read, which follows a conflict.
    proxy.answer(&[(Method::GET, &lease)]);
    stage.edit_lease(&json!({ "metadata": { "annotations": { "example.com/edited": "true" } } })).await?;
    proxy.has_answered(Method::GET).await?;
    renewed().await?;
    ensure!(leadership.term().as_ref() == Some(&term), "a read ended the term");

    // A renewal of the candidate, and a read if one follows.
    let ping = SystemClock.wall().later_than(stage.candidates().get(NAME).await?.record.renew_time);
    proxy.answer(&[(Method::PATCH, &candidate), (Method::GET, &candidate)]);
    stage.ping(NAME, &uid, ping).await?;
    proxy.has_answered(Method::PATCH).await?;
    stage.candidate_where(NAME, "the ping is answered", |candidate| candidate.record.renew_time >= Some(ping)).await?;
    ensure!(stage.candidates().get(NAME).await?.record.uid == uid, "the candidate is another");
    ensure!(leadership.term().as_ref() == Some(&term), "the candidate ended the term");

    let created = proxy.0.lock().expect("no holder panics").creations.split_off(before);
    ensure!(created.is_empty(), "it creates what exists: {created:?}");
    campaign.stop().await?;
    Ok(())
}
