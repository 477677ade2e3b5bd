//! A thousand holders in pods are killed at once. Their Pods prove them dead, and the API server must not be flooded by
//! the reads of these Pods.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
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

/// The bound that docs/evidence.md states.
const READS_PER_SECOND: usize = 100;

/// How often each holder renews before it is killed, every two seconds.
const RENEWALS: u32 = 4;

/// The lease of all holders.
const LEASE: Duration = Duration::from_secs(15);

/// The time of each read of a Pod, and of each grant, with the reason.
#[derive(Default)]
struct Record {
    reads: Vec<Instant>,
    /// The first grant of each Lease.
    grants: HashMap<String, (Instant, String)>,
}

#[test]
fn a_thousand_holders_that_are_killed_at_once_do_not_flood_the_server_with_reads_of_pods() {
    let (killed_at, Record { reads, grants }) = in_virtual_time(kill_all());
    let second = Duration::from_secs(1);
    let peak = (0..reads.len())
        .map(|first| reads[first..].iter().take_while(|read| **read - reads[first] < second).count())
        .max()
        .unwrap_or_default();
    let lasted = grants.values().map(|(at, _)| *at - killed_at).max().unwrap();
    let by_evidence = grants.values().filter(|(_, reason)| reason.contains("the container of the holder terminated"));
    println!(
        "{HOLDERS} holders killed at once: {} reads of Pods, at most {peak} in a second; all Leases granted within \
         {lasted:?}, {} of them by evidence",
        reads.len(),
        by_evidence.clone().count(),
    );
    assert!(reads.iter().all(|read| *read >= killed_at), "a holder that renews costs no read");
    assert!((READS_PER_SECOND / 2..=READS_PER_SECOND).contains(&peak), "{peak} reads in a second");
    assert_eq!(by_evidence.count(), HOLDERS);
    assert!(lasted < LEASE, "{lasted:?}");
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
    let evidence = EvidenceConfig { pods: true, ..EvidenceConfig::default() };
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
    if let Some((_, pod)) = path.split_once("/pods/") {
        record.lock().unwrap().reads.push(Instant::now());
        sleep(LONG_ROUND_TRIP).await;
        let pod = ended_pod(NAMESPACE, pod, 2 * RENEWALS + 1).to_string();
        return Response::new(Full::from(pod).map_err(|never| match never {}).boxed_unsync());
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
