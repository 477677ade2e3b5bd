//! A client through which reads always pass, and everything else only while this process leads.
//!
//! The check comes before the sending, so a write may still be on its way when the term ends. That is bounded: a write
//! is refused when less validity is left than it may take, and it is ended when it takes longer. A term that is given up
//! ends before its validity does, and waits for no write but those made within [work](crate::leadership::Term::begin_work).
//! Whoever needs more than that writes the term's token along and has the other side compare.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use http::{Method, Request, Response, header};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tower::{BoxError, Layer, Service};

use crate::leadership::Leadership;

/// A layer that lets writes pass only while this process leads.
#[derive(Clone)]
pub struct WriteGate {
    leadership: Leadership,
    deadline: Duration,
}

/// A service behind a [`WriteGate`].
#[derive(Clone)]
pub struct Gated<S> {
    service: S,
    gate: WriteGate,
}

/// A write was refused, or ended, by the gate. Reads never see this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// It was not sent.
    #[error("not the leader of Lease {lease}: the write was not sent")]
    NotLeading {
        /// `namespace/name`.
        lease: Arc<str>,
    },
    /// It took as long as a write may take, and the server may still execute it.
    #[error("the write took too long to stay within the term of Lease {lease}: its outcome is unknown")]
    TookTooLong {
        /// `namespace/name`.
        lease: Arc<str>,
    },
}

impl WriteGate {
    /// A gate in which each write may take up to `deadline`.
    pub fn new(leadership: Leadership, deadline: Duration) -> Self {
        Self { leadership, deadline }
    }

    /// A client behind this gate.
    pub fn client(&self, config: Config) -> Result<Client, kube::Error> {
        Ok(ClientBuilder::try_from(config)?.with_layer(self).build())
    }

    fn lease(&self) -> Arc<str> {
        self.leadership.lease().into()
    }
}

/// Whether `error` says that the gate kept a write back.
pub fn is_not_leading(error: &kube::Error) -> bool {
    matches!(gate_error(error), Some(GateError::NotLeading { .. }))
}

/// What the gate said, where it is the gate that failed the request.
pub fn gate_error(error: &kube::Error) -> Option<&GateError> {
    match error {
        kube::Error::Service(error) => error.downcast_ref(),
        _ => None,
    }
}

impl<S> Layer<S> for WriteGate {
    type Service = Gated<S>;

    fn layer(&self, service: S) -> Gated<S> {
        Gated { service, gate: self.clone() }
    }
}

impl<S, B> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if is_read(&request) {
            return self.service.call(request).map(|answer| answer.map_err(Into::into)).boxed();
        }
        let WriteGate { leadership, deadline } = &self.gate;
        let lease = self.gate.lease();
        // Both count from here, so that a write that is sent is over before the validity is.
        let end = leadership.clock().now().after(*deadline);
        if leadership.remaining() <= *deadline {
            return async { Err(GateError::NotLeading { lease }.into()) }.boxed();
        }
        let timeout = leadership.clock().sleep_until(end);
        let answer = self.service.call(request);
        async move {
            match select(Box::pin(answer), timeout).await {
                Either::Left((answer, _)) => answer.map_err(Into::into),
                Either::Right(((), _)) => Err(GateError::TookTooLong { lease }.into()),
            }
        }
        .boxed()
    }
}

/// GET can do more than read: it opens `exec` and the like, by an upgrade.
fn is_read(request: &Request<Body>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && !request.headers().contains_key(header::UPGRADE)
}

#[cfg(test)]
mod tests {
    use hustings_core::elector::Leading;
    use hustings_core::model::Moment;
    use kube::api::{Api, DynamicObject, PostParams};
    use kube::core::{ApiResource, GroupVersionKind};
    use serde_json::json;

    use super::*;
    use crate::leadership::{Publisher, leadership};
    use crate::testing::HandClock;

    fn api(leadership: Leadership) -> Api<DynamicObject> {
        let server = tower::service_fn(|request: Request<Body>| async move {
            let list = request.uri().path().ends_with("/configmaps") && request.method() == Method::GET;
            let body = if list {
                json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {}, "items": [] })
            } else {
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" } })
            };
            Ok::<_, BoxError>(Response::new(Body::from(body.to_string().into_bytes())))
        });
        let gate = WriteGate::new(leadership, Duration::from_secs(5));
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        Api::namespaced_with(Client::new(gate.layer(server), "n"), "n", &kind)
    }

    fn led(valid_until_seconds: i64) -> (Publisher, Leadership) {
        let (mut publisher, leadership) = leadership(HandClock::at_seconds(100), "n/l".to_owned(), "a".to_owned());
        let valid_until = Moment::from_micros(valid_until_seconds * 1_000_000);
        publisher.publish(Some(Leading { number: 1, token: 1, valid_until }), None);
        (publisher, leadership)
    }

    async fn create(api: &Api<DynamicObject>) -> Result<DynamicObject, kube::Error> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        api.create(&PostParams::default(), &DynamicObject::new("c", &kind)).await
    }

    #[tokio::test]
    async fn reads_always_pass_and_writes_only_while_leading() {
        let (publisher, leadership) = led(110);
        let api = api(leadership);
        create(&api).await.unwrap();
        drop(publisher);
        api.list(&kube::api::ListParams::default()).await.unwrap();
        let refused = create(&api).await.unwrap_err();
        assert!(is_not_leading(&refused), "{refused}");
        assert!(refused.to_string().contains("not the leader of Lease n/l"), "{refused}");
        let refused = api.delete("c", &kube::api::DeleteParams::default()).await.unwrap_err();
        assert!(is_not_leading(&refused), "{refused}");
    }

    #[tokio::test]
    async fn a_write_that_could_outlast_the_validity_is_not_sent() {
        let (_publisher, leadership) = led(105);
        assert!(leadership.is_leader());
        assert!(is_not_leading(&create(&api(leadership)).await.unwrap_err()));
    }

    #[test]
    fn an_upgrade_is_no_read() {
        let exec = Request::get("/api/v1/namespaces/n/pods/p/exec").header(header::UPGRADE, "websocket");
        assert!(!is_read(&exec.body(Body::empty()).unwrap()));
    }
}
