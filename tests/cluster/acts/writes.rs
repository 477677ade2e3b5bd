//! The writes of one command, on their way to the API server: the test sees them, and can hold the next one.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;
use hustings_controlplane::PATIENCE;
use kube::Client;
use tempfile::NamedTempFile;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::{Done, Scene, act};
use crate::controller::support::eventually;
use crate::gateway;

/// A way to the API server for one command. All requests arrive there as the administrator's.
pub(super) struct Writes<'a> {
    scene: &'a Scene,
    kubeconfig: NamedTempFile,
    passage: Arc<Passage>,
}

struct Passage {
    client: Client,
    holds_next: AtomicBool,
    is_held: Notify,
    is_released: Notify,
    /// The server's status codes for the writes so far.
    answers: Mutex<Vec<u16>>,
}

impl<'a> Writes<'a> {
    pub(super) async fn of(scene: &'a Scene) -> Self {
        let passage = Arc::new(Passage {
            client: scene.world.client.clone(),
            holds_next: AtomicBool::new(false),
            is_held: Notify::new(),
            is_released: Notify::new(),
            answers: Mutex::default(),
        });
        let kubeconfig = gateway::open(Router::new().fallback(pass).with_state(Arc::clone(&passage))).await;
        Self { scene, kubeconfig, passage }
    }

    /// The same, and the first write waits for [`release`](Self::release).
    pub(super) async fn held(scene: &'a Scene) -> Self {
        let writes = Self::of(scene).await;
        writes.passage.holds_next.store(true, Ordering::SeqCst);
        writes
    }

    /// Runs `hustings` with these arguments, and waits for its end.
    pub(super) async fn run(&self, arguments: &[&str]) -> Done {
        act(self.kubeconfig(), &self.scene.world.namespace, arguments).await
    }

    fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// Waits until the command has sent the write that is held.
    pub(super) async fn is_held(&self) {
        timeout(PATIENCE, self.passage.is_held.notified()).await.unwrap();
    }

    pub(super) fn release(&self) {
        self.passage.is_released.notify_one();
    }

    /// Waits until the server has accepted a write.
    pub(super) async fn is_accepted(&self) {
        eventually("a write is accepted", || async {
            let answers = self.answers();
            if answers.contains(&200) { Ok(()) } else { Err(answers) }
        })
        .await;
    }

    /// The server's status codes for the writes so far.
    pub(super) fn answers(&self) -> Vec<u16> {
        self.passage.answers.lock().unwrap().clone()
    }
}

async fn pass(State(passage): State<Arc<Passage>>, request: Request) -> Response {
    // A review asks for the name of the user, and changes nothing.
    let is_write = request.method() != Method::GET && !request.uri().path().ends_with("/selfsubjectreviews");
    if is_write && passage.holds_next.swap(false, Ordering::SeqCst) {
        passage.is_held.notify_one();
        passage.is_released.notified().await;
    }
    let answer = gateway::forward(&passage.client, request).await;
    if is_write {
        passage.answers.lock().unwrap().push(answer.status().as_u16());
    }
    answer
}
