//! Traces of elections, which a small collector receives: feature `otlp`.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;

use super::peer::Peer;
use super::support::{World, binary, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn each_election_is_a_span_with_its_cause_its_holder_and_the_reason_of_each_candidate() {
    let (endpoint, spans) = collector().await;
    let world = World::new("traces").await;
    let mut command = Command::new(binary());
    command.args(["controller", "--admin-address=127.0.0.1:0", "--settling=0s"]);
    command.args(["--watch-namespaces", &world.namespace, "--namespace", &world.namespace]);
    command.arg("--kubeconfig").arg(world.plane.kubeconfig());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("OTEL_BSP_SCHEDULE_DELAY", "100");
    let controller = world.plane.spawn("controller-traces", command).unwrap();

    let _newer = Peer::start(&world, "web", "a", "2.0.0").await;
    world.led_by("web", "a").await;
    let _older = Peer::start(&world, "web", "b", "1.0.0").await;
    world.led_by("web", "b").await;
    // The end of the process sends what is left.
    eventually("two elections are traced", async || {
        let count = spans.lock().unwrap().len();
        if count >= 2 { Ok(()) } else { Err(count) }
    })
    .await;
    assert!(controller.stop().await.unwrap().success());

    let spans = spans.lock().unwrap();
    let [first, second, ..] = spans.as_slice() else { panic!("{spans:#?}") };
    let of_first = attributes(&first.attributes);
    assert_eq!((first.name.as_str(), of_first["hustings.lease"].as_str()), ("election", "web"));
    assert_eq!(of_first["k8s.namespace.name"], world.namespace);
    assert_eq!(of_first["hustings.holder"], "a");
    assert_eq!(of_first["hustings.choice"], "a was elected: it is the only admissible candidate.");
    assert!(first.start_time_unix_nano < first.end_time_unix_nano, "{first:?}");

    let of_second = attributes(&second.attributes);
    assert_eq!((&*of_second["hustings.cause"], &*of_second["hustings.holder"]), ("handed-over", "b"));
    assert_eq!(of_second["hustings.choice"], "a was asked to hand over to b, which has an older emulation version.");
    assert_eq!((&*of_second["hustings.former_holder"], &*of_second["hustings.transitions"]), ("a", "2"));
    let candidates: Vec<_> = second.events.iter().map(|event| attributes(&event.attributes)).collect();
    let shown = candidates.iter().map(|candidate| {
        (
            candidate["hustings.candidate"].as_str(),
            candidate["hustings.reason"].as_str(),
            candidate["hustings.kind"].as_str(),
        )
    });
    let expected =
        [("b", "Holds the Lease.", "hustings"), ("a", "The holder has an older emulation version.", "hustings")];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

/// A collector, by its address, and the spans that it has received.
async fn collector() -> (String, Arc<Mutex<Vec<Span>>>) {
    let spans = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&spans);
    let receive = async move |body: Bytes| {
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        let all = request.resource_spans.into_iter().flat_map(|spans| spans.scope_spans);
        received.lock().unwrap().extend(all.flat_map(|spans| spans.spans));
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/v1/traces", post(receive));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (endpoint, spans)
}

/// The attributes as texts.
fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match attribute.value.clone().and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect()
}
