//! The gate in front of kube's own client and of other services.

use hustings_core::model::Moment;
use tokio::sync::OwnedSemaphorePermit;

use super::*;

/// A server that always answers 503, and counts its requests.
async fn overloaded() -> (Config, Arc<AtomicU32>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
    config.default_retry = true;
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    tokio::spawn(async move {
        'connections: loop {
            let (connection, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                connection.readable().await.unwrap();
                let mut buffer = [0; 4096];
                match connection.try_read(&mut buffer) {
                    Ok(0) => continue 'connections,
                    Ok(read) => request.extend_from_slice(&buffer[..read]),
                    Err(_) => {}
                }
            }
            counter.fetch_add(1, Ordering::SeqCst);
            connection.writable().await.unwrap();
            let answer = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            connection.try_write(answer).unwrap();
        }
    });
    (config, asked)
}

#[tokio::test]
async fn the_retries_of_kube_belong_to_one_write_and_end_with_its_term() {
    let (config, asked) = overloaded().await;
    let clock = crate::clock::SystemClock::shared();
    let (mut publisher, leadership) =
        leadership(Arc::clone(&clock), "n/l".to_owned(), "a".to_owned(), Timing::default());
    let api = config_maps(WriteGate::new(leadership, DEADLINE).unwrap().client(config).unwrap());
    lead(&mut publisher, &clock, 7, 10);
    let lose = async {
        while asked.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
        publisher.publish(None, None);
        asked.load(Ordering::SeqCst)
    };
    let (ended, repeated) = futures::join!(create(&api), lose);
    assert!(matches!(gate_error_of(&ended.unwrap_err()), GateError::LostMeanwhile { .. }));
    // The next retry would follow within a few tens of milliseconds.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(asked.load(Ordering::SeqCst) <= repeated + 1, "one may have been on its way");
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_term_ends_before_its_task_runs_is_not_sent() {
    let (clock, mut publisher, gate) = handles();
    let server = Server::default();
    lead(&mut publisher, &clock, 7, 10);
    let mut service = gate.layer(tower::service_fn({
        let client = server.client();
        move |request: Request<Body>| {
            let client = client.clone();
            async move { client.send(request).await }
        }
    }));
    let request = Request::post("/api/v1/namespaces/n/configmaps").body(Body::empty()).unwrap();
    let write = service.call(request);
    publisher.publish(None, None);
    let error = write.await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(GateError::NotLeading { .. })), "{error}");
    assert_eq!(server.asked(), 0);
}

#[tokio::test]
async fn a_write_whose_task_runs_at_its_deadline_is_not_sent() {
    let clock = HandClock::at_seconds(100);
    let (mut publisher, leadership) = leadership(clock.clone(), "n/l".to_owned(), "a".to_owned(), Timing::default());
    publisher.publish(Some(Leading { number: 1, token: 7, valid_until: Moment::from_micros(110_000_000) }), None);
    let mut service = WriteGate::new(leadership, DEADLINE).unwrap().layer(Busy);
    let write = service.call(Request::post("/api/v1/namespaces/n/configmaps").body(Body::empty()).unwrap());
    clock.set_seconds(105);
    let error = write.await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(GateError::NotLeading { .. })), "{error}");
}

/// A service that is never ready.
#[derive(Clone)]
struct Busy;

impl Service<Request<Body>> for Busy {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Ready<GateAnswer<Body>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Pending
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        ready(Err("it was not ready".into()))
    }
}

#[tokio::test]
async fn a_gated_service_is_ready_only_if_the_service_behind_it_is() {
    let (_clock, _publisher, gate) = handles();
    assert!(gate.layer(Busy).ready().now_or_never().is_none());
}

/// A service with room for one request. A clone has no place of its own.
struct OnePlace {
    room: Arc<Semaphore>,
    place: Option<OwnedSemaphorePermit>,
}

impl Clone for OnePlace {
    fn clone(&self) -> Self {
        Self { room: Arc::clone(&self.room), place: None }
    }
}

impl Service<Request<Body>> for OnePlace {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Ready<GateAnswer<Body>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.place = self.place.take().or_else(|| Arc::clone(&self.room).try_acquire_owned().ok());
        if self.place.is_some() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        drop(self.place.take().expect("it was ready"));
        ready(Ok(Response::new(Body::empty())))
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_takes_the_place_that_its_service_had_reserved() {
    let (clock, mut publisher, gate) = handles();
    lead(&mut publisher, &clock, 7, 10);
    let mut service = gate.layer(OnePlace { room: Arc::new(Semaphore::new(1)), place: None });
    for _ in 0..2 {
        let request = Request::post("/api/v1/namespaces/n/configmaps").body(Body::empty()).unwrap();
        service.ready().await.unwrap().call(request).await.unwrap();
    }
}
