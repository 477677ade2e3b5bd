//! A proxy between the controller and the API server that answers 404 in place of the server.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use futures::future::join_all;
use hustings_core::model::CandidateState;
use kube::Client;
use serde_json::json;

use super::peer::Peer;
use super::support::{Controller, World, eventually};
use crate::gateway;

/// The answer that the proxy gives once. The Lease and the candidates of each scene have the scene's name.
const PING: &str = "ping";
const STATUS: &str = "status";
const READ: &str = "read";
const GRANT: &str = "grant";
const CANDIDATE: &str = "candidate";
const SCENES: [&str; 5] = [PING, STATUS, READ, GRANT, CANDIDATE];

/// Forwards requests, except the first of each scene's kind.
#[derive(Clone)]
struct Proxy {
    client: Client,
    due: Arc<Mutex<HashSet<(Method, String)>>>,
}

fn best(scene: &str) -> String {
    format!("{scene}-best")
}

fn other(scene: &str) -> String {
    format!("{scene}-other")
}

/// The request of this scene that the proxy answers.
fn forged(scene: &str) -> (Method, String) {
    let method = if [READ, CANDIDATE].contains(&scene) { Method::GET } else { Method::PATCH };
    let object = match scene {
        STATUS => format!("/leasecandidates/{}/status", best(scene)),
        PING | CANDIDATE => format!("/leasecandidates/{}", best(scene)),
        _ => format!("/leases/{scene}"),
    };
    (method, object)
}

impl Proxy {
    /// A proxy, and a kubeconfig file with its address.
    async fn start(world: &World) -> (Self, tempfile::NamedTempFile) {
        let due = SCENES.map(forged).into_iter().collect();
        let proxy = Self { client: world.client.clone(), due: Arc::new(Mutex::new(due)) };
        let file = gateway::open(Router::new().fallback(pass).with_state(proxy.clone())).await;
        (proxy, file)
    }

    fn due(&self) -> Vec<(Method, String)> {
        self.due.lock().unwrap().iter().cloned().collect()
    }
}

async fn pass(State(proxy): State<Proxy>, request: Request) -> Response {
    let sent =
        |(method, object): &(Method, String)| request.method() == method && request.uri().path().ends_with(object);
    let forged = proxy.due().into_iter().find(sent);
    if forged.is_some_and(|forged| proxy.due.lock().unwrap().remove(&forged)) {
        return (StatusCode::NOT_FOUND, Html("<html><body>Not Found</body></html>")).into_response();
    }
    gateway::forward(&proxy.client, request).await
}

/// Waits until the status of a candidate has one of these states.
async fn is_in(world: &World, candidate: &str, states: &[CandidateState]) {
    eventually(&format!("{candidate} is one of {states:?}"), || async {
        let found = world.candidate(candidate).await.ok_or("no candidate")?.record.status;
        if found.state.is_some_and(|state| states.contains(&state)) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

/// One election. The proxy answers one of its requests.
async fn election(world: &World, proxy: &Proxy, scene: &str) -> [Peer; 2] {
    let better = async {
        if [READ, CANDIDATE].contains(&scene) {
            let spec = json!({ "leaseName": scene, "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" });
            world.stand(&best(scene), spec).await;
            if scene == CANDIDATE {
                // The controller reads a candidate before it declares that it has failed.
                is_in(world, &best(scene), &[CandidateState::Unresponsive]).await;
            } else {
                // The holder's first renewal enrolls the Lease. The controller then no longer reads it.
                eventually("the controller reads the Lease", || async {
                    if proxy.due().contains(&forged(READ)) { Err("not yet") } else { Ok(()) }
                })
                .await;
            }
            return Peer::live(world, scene, &best(scene));
        }
        Peer::start(world, scene, &best(scene), "1.0.0").await
    };
    let worse = async { Peer::start(world, scene, &other(scene), "1.1.0").await };
    let (better, worse) = tokio::join!(better, worse);
    world.led_by(scene, &better.name).await;
    is_in(world, &better.name, &[CandidateState::Holder]).await;
    is_in(world, &worse.name, &[CandidateState::Standby, CandidateState::Unproven]).await;
    [better, worse]
}

/// A proxy's page proves nothing about an object: the controller reads the object, or tries again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_answers_404_once_costs_no_election_its_best_candidate_and_no_holder_its_term() {
    let world = World::new("forged").await;
    // Not enrolled, so that the controller reads it although it has a holder.
    let session = format!("{}-session/1/6", best(READ));
    let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": READ, "annotations": { "hustings.io/session": session, "hustings.io/token": "7" } },
        "spec": { "holderIdentity": best(READ), "leaseDurationSeconds": 6, "leaseTransitions": 1 } });
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", world.namespace);
    let request = http::Request::post(leases).header("content-type", "application/json");
    let request = request.body(lease.to_string().into_bytes()).unwrap();
    world.client.request::<serde_json::Value>(request).await.unwrap();

    let (proxy, kubeconfig) = Proxy::start(&world).await;
    let flags = ["--watch-namespaces", &world.namespace, "--namespace", &world.namespace];
    let elections = join_all(SCENES.map(|scene| election(&world, &proxy, scene)));
    let controller = async {
        let controller = Controller::start(&world.plane, kubeconfig.path(), &flags).await.ready().await;
        controller.leads().await;
        controller
    };
    let (controller, _peers) = tokio::join!(controller, elections);
    assert_eq!(proxy.due(), [], "the controller has not sent these");

    for scene in SCENES {
        let lease = world.led_by(scene, &best(scene)).await.record;
        // The other candidate leads as long as the best does not answer.
        let terms = if scene == CANDIDATE { 2 } else { 1 };
        assert_eq!(lease.transitions, terms, "{scene}: {lease:?}");
    }
    assert_eq!(world.lease(READ).await.unwrap().record.token, Some(7), "it leads still");
    let conflicts =
        controller.metric_if_any(r#"hustings_request_failures_total{request="create",error="conflict"}"#).await;
    assert!(!conflicts.is_ok_and(|conflicts| conflicts > 0.0), "a Lease was created that exists");
}
