//! How soon one watch follows another.

use super::*;

#[tokio::test(start_paused = true)]
async fn watches_begin_a_second_apart_and_no_other_request_waits_or_counts() {
    let answers = |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) };
    let client = paced(Client::new(tower::service_fn(answers), "n"), "n");
    let send = |uri| client.send(http::Request::get(uri).body(Body::empty()).unwrap());
    // A timer would end at the next full millisecond.
    tokio::time::advance(Duration::from_micros(500)).await;
    let asked = Instant::now();
    send("/").await.unwrap();
    assert_eq!(asked.elapsed(), Duration::ZERO, "it needs no timer");
    tokio::time::advance(Duration::from_micros(500)).await;
    for (pause, uri, waited) in [
        (0, "/?watch=true", 0),
        (0, "/", 0),
        (0, "/?watch=true", 1),
        (10, "/?watch=true", 0),
        (0, "/?watch=true", 1),
        (1, "/?watch=true", 0),
    ] {
        tokio::time::advance(Duration::from_secs(pause)).await;
        let asked = Instant::now();
        send(uri).await.unwrap();
        assert_eq!(asked.elapsed(), Duration::from_secs(waited), "{uri} after {pause} s");
    }
}
