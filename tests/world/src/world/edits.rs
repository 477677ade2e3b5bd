//! Third parties that write the Lease by hand.
//!
//! They keep the premises under which leadership is safe: nobody forges `open` or the form of a released Lease, nobody
//! shortens what a session declares, and nobody deletes a held Lease whose term somebody has not seen.

use std::time::Duration;

use hustings_client::api::LeaseCandidate;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use rand::RngExt;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::World;
use crate::process::{LEASE, NAMESPACE};

impl World {
    pub(super) async fn delete_candidate(&mut self) -> bool {
        let Some(name) = self.processes.choose(&mut self.rng).map(|process| process.name.clone()) else { return false };
        self.tell(&format!("somebody deletes candidate {name}"));
        let candidates = Api::<LeaseCandidate>::namespaced(self.server.client(NAMESPACE), NAMESPACE);
        candidates.delete(&name, &DeleteParams::default()).await.is_ok()
    }

    fn leases(&self) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease"));
        Api::namespaced_with(self.server.client(NAMESPACE), NAMESPACE, &kind)
    }

    pub(super) async fn delete(&mut self) -> bool {
        if !self.may_delete() {
            return false;
        }
        self.tell("somebody deletes the Lease");
        // Those who start just afterwards would find it free at once.
        self.no_start_before = Instant::now() + Duration::from_mins(1);
        self.leases().delete(LEASE, &DeleteParams::default()).await.is_ok()
    }

    pub(super) async fn edit(&mut self) -> bool {
        let name = self.processes.choose(&mut self.rng).map(|process| process.name.clone()).unwrap_or_default();
        let patches: [Value; 8] = [
            json!({ "spec": { "holderIdentity": "nobody-knows" } }),
            json!({ "spec": { "holderIdentity": name } }),
            json!({ "spec": { "leaseDurationSeconds": 2 } }),
            json!({ "spec": { "leaseDurationSeconds": 40 } }),
            json!({ "spec": { "renewTime": "1970-01-01T00:00:00.000000Z" } }),
            json!({ "spec": { "renewTime": "2200-01-01T00:00:00.000000Z", "acquireTime": null } }),
            json!({ "spec": { "leaseTransitions": self.rng.random_range(0..i32::MAX) } }),
            json!({ "metadata": { "labels": { "hustings.io/enrolled": null } } }),
        ];
        let patch = patches.choose(&mut self.rng).cloned().unwrap_or_default();
        self.tell(&format!("somebody writes {patch}"));
        match self.leases().patch(LEASE, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(lease) => {
                let version = lease.metadata.resource_version.and_then(|version| version.parse().ok());
                self.checker.expect_edit(version.unwrap_or(0));
                true
            }
            Err(_) => false,
        }
    }
}
