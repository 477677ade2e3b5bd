//! Measures whether the machine lets the API server answer, and its watches report, in time. A machine that does not is
//! the one fault that these tests cannot switch off.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::corpus::Kind;
use super::load::{send, url};

/// A write is slow if it takes longer than this until it is answered and a watch reports it. Slow writes are a fault:
/// an election makes several requests, one after the other, and a candidate learns of its grant by a watch.
const SLOW: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);
/// How long the watch may take before the next write.
const WATCH_LIMIT: Duration = Duration::from_secs(10);
const LABEL: &str = "example.com/probe";

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
        let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
        let probing = async move {
            let mut shown = pin!(watch_object(leases, "probe").default_backoff());
            for number in 0_u64.. {
                let sent = Instant::now();
                lock(&shared).sent = Some(sent);
                let number = number.to_string();
                let patch = json!({ "metadata": { "labels": { LABEL: number } } });
                let answer = send(&client, "PATCH", &format!("{url}/probe"), &patch).await;
                let is_shown = timeout(WATCH_LIMIT, async {
                    while let Some(lease) = shown.next().await {
                        if matches!(lease, Ok(Some(lease)) if lease.labels().get(LABEL) == Some(&number)) {
                            return;
                        }
                    }
                });
                let is_ok = answer.is_ok() && is_shown.await.is_ok();
                lock(&shared).record(sent, is_ok);
                tokio::time::sleep(PAUSE).await;
            }
        };
        Self { _task: AbortOnDropHandle::new(tokio::spawn(probing)), met }
    }

    /// When a write was last slow, if any was.
    pub(super) fn last_slow(&self) -> Option<Instant> {
        let met = lock(&self.met);
        if met.sent.is_some_and(|sent| sent.elapsed() > SLOW) { Some(Instant::now()) } else { met.last }
    }

    /// How many writes were slow.
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
