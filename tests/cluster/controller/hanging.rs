//! An admission webhook that never answers makes the writes of one namespace hang. That must delay no failover of another.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::elections::http_post;
use super::peer::Peer;
use super::support::{Controller, World, eventually, stand_many};

/// The Leases of the namespace whose writes hang, and the candidates of each: many more requests than the controller
/// sends at a time.
const LEASES: usize = 100;
const CANDIDATES: usize = 5;

/// How many requests must reach their deadline before the other namespace fails over.
const TIMEOUTS: f64 = 40.0;

/// How much longer a failover may take than the undisturbed one, on a busy machine. With one queue for all namespaces
/// even the first election would take longer than the tests wait.
const TOLERANCE: Duration = Duration::from_secs(10);

const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// A webhook that accepts connections and never answers.
struct Webhook {
    _listener: TcpListener,
    _connection: TcpStream,
}

/// Lease writes and pings that hang in one namespace, or statuses alone, do not stop elections in another namespace.
/// All three runs happen at the same time, so that a busy machine affects each equally.
#[tokio::test]
async fn a_webhook_that_never_answers_in_one_namespace_delays_no_failover_of_another() {
    let (undisturbed, all, statuses) = tokio::join!(
        failover("hanging-nothing", None),
        failover("hanging-all", Some(("*/*", "ping"))),
        failover("hanging-statuses", Some(("leasecandidates/status", "status"))),
    );
    println!("undisturbed {undisturbed:?}, all writes hang {all:?}, statuses hang {statuses:?}");
    assert!(all < undisturbed + TOLERANCE, "{all:?}, undisturbed {undisturbed:?}");
    assert!(statuses < undisturbed + TOLERANCE, "{statuses:?}, undisturbed {undisturbed:?}");
}

/// How long a namespace has no holder after a crash, while the writes of these resources hang in another namespace.
/// Requests of the named kind reach their deadline.
async fn failover(name: &str, hanging: Option<(&str, &str)>) -> Duration {
    let (world, hostile) = (World::new(name).await, World::new(name).await);
    let both = format!("{},{}", world.namespace, hostile.namespace);
    let flags = ["--watch-namespaces", &both, "--namespace", &world.namespace];
    let mut webhook = None;
    if let Some((resources, _)) = hanging {
        let name = |number| (format!("c-{number}"), format!("work-{}", number % LEASES));
        stand_many(&hostile, LEASES * CANDIDATES, name).await;
        webhook = Some(Webhook::install(&hostile, resources).await);
    }
    let controller = Controller::start(&world.plane, &world.plane.kubeconfig(), &flags).await.ready().await;
    controller.leads().await;
    let first = Peer::start(&world, "work", "a", "1.0.0").await;
    world.led_by("work", &first.name).await;
    let second = Peer::start(&world, "work", "b", "1.0.0").await;
    if let Some((_, request)) = hanging {
        let series = format!(r#"hustings_request_failures_total{{request="{request}",error="timeout"}}"#);
        eventually("requests hang", || async {
            let failed = controller.metric(&series).await;
            if failed >= TIMEOUTS { Ok(()) } else { Err(failed) }
        })
        .await;
    }
    let crashed = Instant::now();
    first.crash();
    world.led_by("work", &second.name).await;
    drop(webhook);
    crashed.elapsed()
}

impl Webhook {
    /// Makes the writes of these resources in the namespace hang, and waits until they do.
    async fn install(world: &World, resources: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let rule = json!({ "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": [resources],
            "scope": "Namespaced" });
        let webhook = json!({
            "name": "silent.example.com", "clientConfig": { "url": url }, "rules": [rule], "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 30, "failurePolicy": "Fail",
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": world.namespace } },
        });
        let object = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": world.namespace }, "webhooks": [webhook] });
        world.client.request::<Value>(http_post(WEBHOOKS, &object)).await.unwrap();
        loop {
            tokio::select! {
                accepted = listener.accept() => return Self { _listener: listener, _connection: accepted.unwrap().0 },
                () = probe(world) => {}
            }
        }
    }
}

/// A write without effect.
async fn probe(world: &World) {
    let url = format!(
        "/apis/hustings.io/v1alpha1/namespaces/{}/leasecandidates/c-0/status?dryRun=All&fieldManager=probe",
        world.namespace
    );
    let request = http::Request::patch(url).header("content-type", "application/merge-patch+json");
    let body = json!({ "status": { "message": "probe" } }).to_string().into_bytes();
    world.client.request::<Value>(request.body(body).unwrap()).await.unwrap();
}
