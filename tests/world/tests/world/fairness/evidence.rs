//! A thousand holders in pods are killed at once. The watch of Pods proves them dead, and no Pod is read.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use hustings::controller::EvidenceConfig;
use hustings_client::testing::TokioClock;
use hustings_world::server::{AnswerBody, Server};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::fairness::controller::Controller;
use crate::fairness::objects::{ended_pod, put_in_pod, renew};
use crate::fairness::{LONG_ROUND_TRIP, in_virtual_time};

const NAMESPACE: &str = "busy";

/// How many holders are killed at once.
const HOLDERS: usize = 1000;

/// How often each holder renews before it is killed, every two seconds.
const RENEWALS: u32 = 4;

/// How soon all Leases are granted, over links with long round trips. docs/evidence.md states it.
const GRANTED_WITHIN: Duration = Duration::from_secs(5);

/// The requests for Pods, and the time of each grant with its reason.
#[derive(Default)]
struct Record {
    pod_requests: Vec<String>,
    /// The first grant of each Lease.
    grants: HashMap<String, (Instant, String)>,
}

#[test]
fn a_thousand_holders_that_are_killed_at_once_are_succeeded_by_evidence_without_reads_of_pods() {
    let (killed_at, Record { pod_requests, grants }) = in_virtual_time(kill_all());
    let lasted = grants.values().map(|(at, _)| *at - killed_at).max().unwrap();
    let by_evidence = grants.values().filter(|(_, reason)| reason.contains("the container of the holder terminated"));
    println!(
        "{HOLDERS} holders killed at once: {} requests for Pods; all Leases granted within {lasted:?}, {} of them by \
         evidence",
        pod_requests.len(),
        by_evidence.clone().count(),
    );
    assert!(pod_requests.iter().all(|path| path == "/api/v1/pods") && pod_requests.len() < 5, "{pod_requests:?}");
    assert_eq!(by_evidence.count(), HOLDERS);
    assert!(lasted < GRANTED_WITHIN, "{lasted:?}");
}

/// Kills all holders in the same instant, and waits until each Lease is granted to another candidate.
async fn kill_all() -> (Instant, Record) {
    let server = Server::default();
    let leases: Vec<_> = (0..HOLDERS).map(|number| format!("l{number}")).collect();
    for lease in &leases {
        put_in_pod(&server, NAMESPACE, lease);
    }
    let record = Arc::new(Mutex::new(Record::default()));
    let service = {
        let (server, record) = (server.clone(), Arc::clone(&record));
        tower::service_fn(move |request: Request<Body>| {
            let (server, record) = (server.clone(), Arc::clone(&record));
            async move { Ok::<_, Infallible>(answer(&server, &record, request).await) }
        })
    };
    let evidence = EvidenceConfig { pods: true, nodes: false };
    let controller = Controller::start(Client::new(service, "hustings"), TokioClock::shared(), evidence);
    sleep(Duration::from_secs(1)).await;
    for second in (1..=RENEWALS).map(|renewal| 2 * renewal) {
        // Evenly spread over two seconds.
        for lease in &leases {
            renew(&server, NAMESPACE, lease, second);
            sleep(Duration::from_millis(2)).await;
        }
    }
    let killed_at = Instant::now();
    for lease in &leases {
        let name = format!("{lease}-a");
        server.put_pod(NAMESPACE, &name, Some(ended_pod(NAMESPACE, &name, 2 * RENEWALS + 1)));
    }
    let all_granted = async {
        while record.lock().unwrap().grants.len() < HOLDERS {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_mins(1), all_granted).await.expect("grants of all Leases");
    controller.stop().await;
    (killed_at, std::mem::take(&mut *record.lock().unwrap()))
}

/// Answers like the API server. Every candidate but the killed holders answers pings at once.
async fn answer(server: &Server, record: &Mutex<Record>, request: Request<Body>) -> Response<AnswerBody> {
    let (parts, body) = request.into_parts();
    let body = body.collect_bytes().await.unwrap();
    let path = parts.uri.path();
    if path.contains("/pods") {
        record.lock().unwrap().pod_requests.push(path.to_owned());
    }
    sleep(LONG_ROUND_TRIP).await;
    let answer = server.execute(&parts.method, &parts.uri, &parts.headers, &body);
    if parts.method == Method::PATCH && path.contains("/namespaces/busy/") {
        let write: Value = serde_json::from_slice(&body).unwrap();
        if path.contains("/leases/") && write["spec"]["holderIdentity"].is_string() {
            let reason = write["metadata"]["annotations"]["hustings.io/reason"].to_string();
            record.lock().unwrap().grants.entry(path.to_owned()).or_insert((Instant::now(), reason));
        }
        if path.ends_with("-b") {
            let ack = json!({ "spec": { "renewTime": write["spec"]["pingTime"] } }).to_string();
            server.execute(&parts.method, &parts.uri, &parts.headers, ack.as_bytes());
        }
    }
    answer
}
