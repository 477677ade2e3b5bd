//! A candidate that may not list the others, where no controller elects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use hustings_client::Elector;
use hustings_client::testing::TokioClock;
use hustings_world::server::Server;
use kube::Client;
use kube::client::Body;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::json;
use tokio::time::{sleep, timeout};

/// Longer than the candidate waits for a controller, or between two lists.
const LONG: Duration = Duration::from_mins(3);

/// The server as a candidate reaches it.
#[derive(Default)]
struct Rights {
    may_list: AtomicBool,
    lists: AtomicUsize,
}

#[tokio::test(start_paused = true)]
async fn without_the_verb_list_nobody_is_elected_and_with_it_the_candidate_is() {
    let (server, rights) = (Server::default(), Arc::new(Rights::default()));
    let elector = Elector::coordinated(client(&server, &rights), "shop", "web", "1.2.0")
        .identity("a")
        .clock(TokioClock::shared())
        .rng(StdRng::seed_from_u64(1));
    let campaign = elector.build().unwrap().start();
    sleep(LONG).await;
    assert!(rights.lists.load(Ordering::Relaxed) >= 3, "it asks again and again");
    assert!(!campaign.leadership().is_leader());
    let claims = server.news(0).iter().filter(|news| news.name == "web").count();
    assert_eq!(claims, 0, "it does not write the Lease");

    rights.may_list.store(true, Ordering::Relaxed);
    timeout(LONG, campaign.leadership().wait_until_leader()).await.expect("it leads").expect("it stands");
}

/// A client to which the server grants everything, lists of candidates only with the right to them.
fn client(server: &Server, rights: &Arc<Rights>) -> Client {
    let (server, rights) = (server.client("shop"), Arc::clone(rights));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, rights) = (server.clone(), Arc::clone(&rights));
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
            if request.method() != Method::GET || !request.uri().path().ends_with("/leasecandidates") || is_watch {
                return server.send(request).await;
            }
            rights.lists.fetch_add(1, Ordering::Relaxed);
            if rights.may_list.load(Ordering::Relaxed) {
                return server.send(request).await;
            }
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                "reason": "Forbidden", "message": "leasecandidates.hustings.io is forbidden"});
            let mut refusal = Response::new(Body::from(status.to_string().into_bytes()));
            *refusal.status_mut() = StatusCode::FORBIDDEN;
            Ok(refusal)
        }
    });
    Client::new(service, "shop")
}
