//! How the requests of a watch heed a busy server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use http::StatusCode;
use tokio::sync::Semaphore;

use super::*;
use crate::watch::requests::WatchRequests;

const FIRST: &str = "/?limit=100";
const LATER: &str = "/?limit=100&continue=x";

/// Requests `uri` from a server that gives these answers, the last one again and again. Returns the status of the last
/// answer, how many the server gave, how many were counted as failures, and the time.
async fn requested(uri: &str, answers: &[(u16, &'static str)]) -> (u16, usize, usize, Duration) {
    let (left, given, counted) = (VecDeque::from(answers.to_vec()), Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
    let (left, asked) = (Mutex::new(left), Arc::clone(&given));
    let client = Client::new(
        tower::service_fn(move |_: Request<Body>| {
            *asked.lock().unwrap() += 1;
            let mut left = left.lock().unwrap();
            let (code, pause) = if left.len() > 1 { left.pop_front() } else { left.front().copied() }.unwrap();
            let answer = Response::builder().status(code).header("retry-after", pause).body(Body::empty()).unwrap();
            async { Ok::<_, Infallible>(answer) }
        }),
        "n",
    );
    let tally = Arc::clone(&counted);
    let client =
        WatchRequests::new(Arc::new(Semaphore::new(1)), move || *tally.lock().unwrap() += 1).client(client, "n");
    let began = Instant::now();
    let answer = client.send(http::Request::get(uri).body(Body::empty()).unwrap()).await.unwrap();
    let numbers = (*given.lock().unwrap(), *counted.lock().unwrap());
    (StatusCode::as_u16(&answer.status()), numbers.0, numbers.1, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_later_page_is_requested_again_when_the_server_asked_for_it() {
    let seconds = Duration::from_secs;
    assert_eq!(requested(LATER, &[(429, "2"), (503, ""), (504, "3600"), (200, "")]).await, (200, 4, 3, seconds(33)));
    assert_eq!(requested(LATER, &[(500, "4"), (200, "")]).await, (200, 2, 1, seconds(4)), "a timeout of etcd");
    assert_eq!(requested(LATER, &[(429, "")]).await, (429, 10, 9, seconds(9)), "it does not ask for ever");
    for code in [403, 410, 500] {
        assert_eq!(requested(LATER, &[(code, "")]).await, (code, 1, 0, seconds(0)));
    }
    assert_eq!(requested(FIRST, &[(429, "2")]).await, (429, 1, 0, seconds(0)), "there is nothing to lose");
}
