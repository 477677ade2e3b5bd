//! Candidates that follow the protocol, and delay the elections of ordinary Leases as much as it allows.

use std::time::Duration;

use hustings_client::api::{ReadCandidate, candidate_patch};
use hustings_client::clock::{Clock as _, SystemClock};
use hustings_client::store::CandidatePatch;
use kube::Client;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::corpus::Kind;
use super::load::{request, send, url};

/// How often such a candidate checks for a ping.
const LIE: Duration = Duration::from_millis(100);

/// Candidates that answer every ping and take no grant up, until this is dropped.
pub(super) struct Liars {
    _task: AbortOnDropHandle<()>,
}

impl Liars {
    /// Makes one for each of these Leases, of the highest priority.
    pub(super) async fn stand(client: Client, namespace: &str, leases: &[String]) -> Self {
        let url = url(Kind::Candidate, namespace);
        for lease in leases {
            let liar = json!({
                "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate", "metadata": { "name": format!("liar.{lease}") },
                "spec": { "leaseName": lease, "binaryVersion": "1.0.0", "emulationVersion": "1.0.0", "priority": i32::MAX },
            });
            send(&client, "POST", &url, &liar).await.unwrap();
        }
        let paths: Vec<_> = leases.iter().map(|lease| format!("{url}/liar.{lease}")).collect();
        let lying = async move {
            loop {
                for path in &paths {
                    answer(&client, path).await;
                }
                tokio::time::sleep(LIE).await;
            }
        };
        Self { _task: AbortOnDropHandle::new(tokio::spawn(lying)) }
    }
}

async fn answer(client: &Client, path: &str) {
    let Ok(candidate) = client.request::<ReadCandidate>(request("GET", path, &Value::Null)).await else { return };
    let record = candidate.record;
    if record.ping_time > record.renew_time {
        let renew_time = SystemClock.wall().later_than(record.renew_time).later_than(record.ping_time);
        let _ = send(client, "PATCH", path, &candidate_patch(&record.uid, &CandidatePatch::Renew(renew_time))).await;
    }
}
