//! Whether the machine lets the API server answer in time: the one fault that these tests cannot switch off.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::Client;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::corpus::Kind;
use super::load::{send, url};

/// An answer that takes longer is a fault: an election makes several requests, one after the other.
const SLOW: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);

/// Writes a Lease without a holder, again and again, until it is dropped.
pub(super) struct Probe {
    _task: AbortOnDropHandle<()>,
    met: Arc<Mutex<Met>>,
}

#[derive(Debug, Default)]
struct Met {
    slow: u64,
    last: Option<Instant>,
    /// When the request under way was sent.
    sent: Option<Instant>,
}

impl Probe {
    pub(super) async fn start(client: Client) -> Self {
        let url = url(Kind::Lease, "default");
        let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "probe" } });
        send(&client, "POST", &url, &lease).await.unwrap();
        let met = Arc::new(Mutex::new(Met::default()));
        let shared = Arc::clone(&met);
        let probing = async move {
            for number in 0_u64.. {
                let sent = Instant::now();
                lock(&shared).sent = Some(sent);
                let patch = json!({ "metadata": { "labels": { "example.com/probe": number.to_string() } } });
                let answer = send(&client, "PATCH", &format!("{url}/probe"), &patch).await;
                lock(&shared).record(sent, answer.is_ok());
                tokio::time::sleep(PAUSE).await;
            }
        };
        Self { _task: AbortOnDropHandle::new(tokio::spawn(probing)), met }
    }

    /// When an answer was last slow, if any was.
    pub(super) fn last_slow(&self) -> Option<Instant> {
        let met = lock(&self.met);
        if met.sent.is_some_and(|sent| sent.elapsed() > SLOW) { Some(Instant::now()) } else { met.last }
    }

    /// How many answers were.
    pub(super) fn slow(&self) -> u64 {
        lock(&self.met).slow
    }
}

impl Met {
    fn record(&mut self, sent: Instant, is_ok: bool) {
        self.sent = None;
        if !is_ok || sent.elapsed() > SLOW {
            self.slow += 1;
            self.last = Some(Instant::now());
        }
    }
}

fn lock(met: &Mutex<Met>) -> MutexGuard<'_, Met> {
    met.lock().unwrap_or_else(PoisonError::into_inner)
}
