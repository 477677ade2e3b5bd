//! Watched namespaces that are deleted, come back, or never existed. The controller has a Role in each, as from the chart.

use http::Request;
use hustings_client::api::LeaseCandidate;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use super::peer::Peer;
use super::revoked::grant_all;
use super::support::{Controller, World, eventually};

const ACCOUNT: &str = "controller";

/// A controller that elects in these namespaces. Its own Lease is in the first one's.
async fn start(world: &World, watched: &[&str]) -> Controller {
    let kubeconfig = world.plane.kubeconfig_for_service_account(&world.namespace, ACCOUNT).await.unwrap();
    let watched = watched.join(",");
    let flags = ["--watch-namespaces", &watched, "--namespace", &world.namespace];
    let short =
        ["--leader-elect-lease-duration=11s", "--leader-elect-retry-period=1s", "--leader-elect-renew-deadline=8s"];
    Controller::start(&world.plane, &kubeconfig, &[&flags[..], &short].concat()).await
}

/// Deletes a namespace with its objects. No controller of Kubernetes runs here that would do so.
async fn delete(world: &World) {
    let (client, name) = (world.client.clone(), &world.namespace);
    let (all, now) = (ListParams::default(), DeleteParams::default());
    Api::<RoleBinding>::namespaced(client.clone(), name).delete_collection(&now, &all).await.unwrap();
    Api::<Role>::namespaced(client.clone(), name).delete_collection(&now, &all).await.unwrap();
    Api::<LeaseCandidate>::namespaced(client.clone(), name).delete_collection(&now, &all).await.unwrap();
    Api::<Lease>::namespaced(client.clone(), name).delete_collection(&now, &all).await.unwrap();
    let namespaces = Api::<Namespace>::all(client.clone());
    namespaces.delete(name, &now).await.unwrap();
    let mut object = serde_json::to_value(namespaces.get(name).await.unwrap()).unwrap();
    object["spec"]["finalizers"] = json!([]);
    let url = format!("/api/v1/namespaces/{name}/finalize");
    let request = Request::put(url).header("content-type", "application/json");
    client.request::<Value>(request.body(object.to_string().into_bytes()).unwrap()).await.unwrap();
    eventually("the namespace is gone", || async {
        if namespaces.get_opt(name).await.unwrap().is_none() { Ok(()) } else { Err("it is still there") }
    })
    .await;
}

async fn create(world: &World) {
    let namespace = json!({ "metadata": { "name": world.namespace } });
    let namespace: Namespace = serde_json::from_value(namespace).unwrap();
    Api::<Namespace>::all(world.client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
}

#[tokio::test]
async fn controllers_are_ready_without_a_deleted_namespace_and_elect_there_when_it_is_back() {
    let (first, second) = (World::new("gone-not").await, World::new("gone").await);
    let misspelt = format!("{}-x", second.namespace);
    first.plane.create_service_account(&first.namespace, ACCOUNT).await.unwrap();
    grant_all(&first, &first.namespace, ACCOUNT).await;
    grant_all(&first, &second.namespace, ACCOUNT).await;
    let watched = [&*first.namespace, &*second.namespace, &*misspelt];
    let before = start(&first, &watched).await.ready().await;
    before.leads().await;
    before.reports(&format!("namespace {misspelt} does not exist, or")).await;
    let peer = Peer::start(&second, "work", "a", "1.0.0").await;
    second.led_by("work", &peer.name).await;
    drop(peer);

    delete(&second).await;
    let absence = format!("namespace {} does not exist, or", second.namespace);
    let after = start(&first, &watched).await.ready().await;
    after.reports(&absence).await;
    // Its watches may last for another minute.
    before.reports(&absence).await;
    before.ready().await.process.stop().await.unwrap();
    after.leads().await;
    let peer = Peer::start(&first, "work", "a", "1.0.0").await;
    first.led_by("work", &peer.name).await;

    create(&second).await;
    grant_all(&first, &second.namespace, ACCOUNT).await;
    let peer = Peer::start(&second, "work", "b", "1.0.0").await;
    second.led_by("work", &peer.name).await;
    eventually("no warning of it is left", || async {
        let readiness = after.get("/readyz?verbose").await?;
        if readiness.code == 200 && !readiness.body.contains(&absence) { Ok(()) } else { Err(readiness.body) }
    })
    .await;
}

/// With permissions for the whole cluster, the API server answers the lists of a missing namespace with empty lists.
#[tokio::test]
async fn a_misspelt_namespace_is_reported_to_a_controller_that_may_read_namespaces() {
    let world = World::new("gone-admin").await;
    let misspelt = format!("{}-x", world.namespace);
    let watched = format!("{},{misspelt}", world.namespace);
    let flags = ["--watch-namespaces", &watched, "--namespace", &world.namespace];
    let controller = Controller::start(&world.plane, &world.plane.kubeconfig(), &flags).await.ready().await;
    controller.reports(&format!("namespace {misspelt} does not exist: create it")).await;
    assert_eq!(controller.get("/readyz").await.unwrap().code, 200);
}
