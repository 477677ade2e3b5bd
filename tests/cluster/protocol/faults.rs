//! Terms while the outcomes of writes are unknown.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use hustings_controlplane::ControlPlane;
use kube::Client;
use tokio::{net::TcpListener, time::sleep};

use super::stage::Election;
use crate::installed::installed;
use crate::replica::{assert_one_at_a_time, install, token, until};

/// A hanging request must leave time for the next.
const TIMES: [&str; 4] = ["--duration=22", "--deadline=8", "--retry=0.5", "--timeout=1.5"];
/// Longer than the renew deadline, and shorter than the lease.
const LATE: Duration = Duration::from_secs(13);

#[tokio::test]
async fn lost_answers_end_no_term_and_late_requests_revive_none() {
    let plane = installed().await;
    let election = Election::new(&plane, "faults").await;
    let client = plane.client_for_service_account(&election.namespace, "web").await.unwrap();
    let (address, fate) = proxy(client).await;
    let election = election.through(address);
    let python = election.python("python", "1.31.0", "1.31.0", &TIMES).await;
    let heir = election.rust("heir", "1.32.0", "1.32.0");
    let first = python.says("leading", 0).await.token.unwrap();
    election.stands_by(&heir).await;

    // It finds each of its writes in the Lease, and continues to lead.
    fate.store(Fate::AnswersLost as u8, Ordering::SeqCst);
    sleep(LATE).await;
    assert!(python.leads(), "{}", python.log());
    assert_eq!(token(&election.lease().await), first.to_string(), "{}", python.log());

    // It stops leading in time, and the late write begins no term.
    fate.store(Fate::RequestsLate as u8, Ordering::SeqCst);
    python.says("stopped", 0).await;
    let silent = election.lease().await;
    until(
        "a write lands late",
        || python.log(),
        async || {
            let lease = election.lease().await;
            let landed = lease["metadata"]["resourceVersion"] != silent["metadata"]["resourceVersion"];
            (landed && token(&lease) == first.to_string()).then_some(())
        },
    )
    .await;
    heir.says("leading", 0).await;
    let terms = assert_one_at_a_time(&[&python, &heir], &[]);
    assert_eq!(terms.len(), 2, "{terms:?}");
}

#[tokio::test]
async fn frozen_api_server_never_makes_two_leaders() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let _controller = install(&plane).await;
    let patient = Election::new(&plane, "patient").await;
    let hasty = Election::new(&plane, "hasty").await;
    let default = patient.python("python", "1.31.0", "1.31.0", &["--duration=30", "--deadline=25"]).await;
    let short = hasty.python("python", "1.31.0", "1.31.0", &["--duration=5", "--deadline=3", "--retry=0.2"]).await;
    let heirs = [patient.rust("heir", "1.32.0", "1.32.0"), hasty.rust("heir", "1.32.0", "1.32.0")];
    let first = default.says("leading", 0).await.token.unwrap();
    short.says("leading", 0).await;
    patient.stands_by(&heirs[0]).await;
    hasty.stands_by(&heirs[1]).await;

    plane.apiserver().pause().unwrap();
    sleep(Duration::from_secs(4)).await;
    plane.apiserver().resume().unwrap();

    // A term of 25 s outlasts this. One of 3 s does not, and another follows.
    short.says("stopped", 0).await;
    until(
        "a replica leads",
        || hasty_log(&short, &heirs[1]),
        async || (short.leads() || heirs[1].leads()).then_some(()),
    )
    .await;
    sleep(Duration::from_secs(2)).await;
    assert!(default.leads(), "{}", default.log());
    assert_eq!(token(&patient.lease().await), first.to_string());
    assert_one_at_a_time(&[&default, &heirs[0]], &[]);
    assert_one_at_a_time(&[&short, &heirs[1]], &[]);
}

fn hasty_log(one: &crate::replica::Replica, other: &crate::replica::Replica) -> String {
    format!("{}\n{}", one.log(), other.log())
}

/// The fate of the writes of Leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Fate {
    Fine,
    /// They are executed, and their answers are lost.
    AnswersLost,
    /// They are executed long after their sender has given them up.
    RequestsLate,
}

type Passage = (Client, Arc<AtomicU8>);

/// A proxy that forwards requests to the API server as `client`; returns its URL.
async fn proxy(client: Client) -> (String, Arc<AtomicU8>) {
    let fate = Arc::new(AtomicU8::new(Fate::Fine as u8));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(pass).with_state((client, Arc::clone(&fate)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, fate)
}

async fn pass(State((client, fate)): State<Passage>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
    let is_write = parts.method == Method::PATCH && parts.uri.path().contains("/leases/");
    let fate = if is_write { fate.load(Ordering::SeqCst) } else { Fate::Fine as u8 };
    // Also if the sender or its connection is gone.
    let executed = tokio::spawn(async move {
        if fate == Fate::RequestsLate as u8 {
            sleep(LATE).await;
        }
        let json = HeaderValue::from_static("application/json");
        let passed = Request::builder()
            .method(parts.method)
            .uri(parts.uri.path())
            .header(CONTENT_TYPE, parts.headers.get(CONTENT_TYPE).unwrap_or(&json));
        client.send(passed.body(body.into()).unwrap()).await
    });
    let answer = executed.await.unwrap();
    if fate == Fate::AnswersLost as u8 {
        std::future::pending::<()>().await;
    }
    match answer {
        Ok(answer) => answer.map(Body::new).into_response(),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}
