//! A minimal native candidate. It answers pings, and holds and releases a Lease in the form of client-go.

use std::time::Duration;

use hustings_client::api::{MicroTime, ReadLease, ReadNativeCandidate};
use hustings_client::clock::{Clock as _, SystemClock};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::task::JoinHandle;

/// A candidate that lives as long as this value.
pub(super) struct NativePeer(JoinHandle<()>);

struct Life {
    candidates: Api<ReadNativeCandidate>,
    leases: Api<ReadLease>,
    lease: String,
    name: String,
}

impl NativePeer {
    /// A candidate whose object exists. It releases the Lease as soon as it is asked to; client-go does so only at its
    /// renew deadline.
    pub(super) fn live(candidates: Api<ReadNativeCandidate>, lease: &str, name: &str) -> Self {
        let namespace = candidates.namespace().expect("native candidates have a namespace");
        let life = Life {
            leases: Api::namespaced(candidates.clone().into_client(), namespace),
            candidates,
            lease: lease.to_owned(),
            name: name.to_owned(),
        };
        Self(tokio::spawn(life.go_on()))
    }
}

impl Drop for NativePeer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Life {
    async fn go_on(self) {
        loop {
            // A request that fails is repeated with the next round.
            drop(self.answer().await);
            drop(self.hold().await);
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    async fn answer(&self) -> kube::Result<()> {
        let record = self.candidates.get(&self.name).await?.record;
        if record.ping_time > record.renew_time {
            let answer = json!({ "spec": { "renewTime": MicroTime(SystemClock.wall().later_than(record.ping_time)) } });
            self.candidates.patch(&self.name, &PatchParams::default(), &Patch::Merge(answer)).await?;
        }
        Ok(())
    }

    /// Takes a grant up, renews, and releases when it is asked to.
    async fn hold(&self) -> kube::Result<()> {
        let ReadLease { metadata, record } = self.leases.get(&self.lease).await?;
        if record.holder.as_ref() != Some(&self.name) {
            return Ok(());
        }
        let now = MicroTime(SystemClock.wall().later_than(record.renew_time));
        let spec = if record.native.preferred_holder.is_some() {
            json!({ "holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now,
                "strategy": null, "preferredHolder": null })
        } else {
            json!({ "leaseDurationSeconds": 15, "renewTime": now })
        };
        let write = json!({ "metadata": { "resourceVersion": metadata.resource_version }, "spec": spec });
        self.leases.patch(&self.lease, &PatchParams::default(), &Patch::Merge(write)).await.map(drop)
    }
}
