//! An API server, or a proxy before it, that answers every request except those about native candidates.

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use kube::Client;
use tokio::sync::watch;

use super::peer::Peer;
use super::support::{Controller, World};
use crate::gateway;

/// The discovery of the versions in which native candidates may be served. The Leases are in another version.
const SILENT: [&str; 2] = ["/apis/coordination.k8s.io/v1beta1", "/apis/coordination.k8s.io/v1alpha2"];

/// Passes a request on, once the API server answers it.
async fn pass(State((client, mut is_silent)): State<(Client, watch::Receiver<bool>)>, request: Request) -> Response {
    if SILENT.iter().any(|path| request.uri().path().starts_with(path)) {
        is_silent.wait_for(|is_silent| !is_silent).await.unwrap();
    }
    gateway::forward(&client, request).await
}

#[tokio::test]
async fn without_answers_about_native_candidates_elections_continue_and_the_controller_is_not_ready() {
    let world = World::new("silent-native").await;
    let (is_silent, receiver) = watch::channel(true);
    let kubeconfig = gateway::open(Router::new().fallback(pass).with_state((world.client.clone(), receiver))).await;
    let flags = ["--watch-namespaces", &world.namespace, "--namespace", &world.namespace, "--native"];
    let controller = Controller::start(&world.plane, kubeconfig.path(), &flags).await;
    let peer = Peer::start(&world, "work", "a", "1.0.0").await;
    world.led_by("work", &peer.name).await;
    controller.reports("no answer to the discovery within 5 s, since 20").await;
    assert_eq!(controller.get("/readyz").await.unwrap().code, 503);
    assert!(controller.logged("elections continue without these objects").is_some());
    let series = r#"hustings_unlisted{resource="native-leasecandidates"}"#;
    assert!(controller.metric(series).await > 0.5);

    is_silent.send(false).unwrap();
    let controller = controller.ready().await;
    assert!(controller.metric(series).await < 0.5);
    controller.reports("the API server does not serve leasecandidates.coordination.k8s.io").await;
}
