//! Third parties that write objects by hand.
//!
//! They keep the premises of safe leadership. They do not forge `open` or the release form, nor shorten what a session
//! declares. They delete a held Lease only if every process has observed its term.

use std::time::Duration;

use hustings_client::api::LeaseCandidate;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Act, World};
use crate::process::NAMESPACE;

/// How soon to check again whether a pod is gone.
const LOOKS_AGAIN: Duration = Duration::from_secs(5);

/// By how many seconds a third party extends a Lease.
const LONGER_SECONDS: u32 = 30;

impl World {
    pub(super) async fn delete_candidate(&mut self, field: usize, number: u64, rng: &mut StdRng) -> bool {
        let Some(name) = self.fields[field].processes.choose(rng).map(|process| process.name.clone()) else {
            return false;
        };
        self.trace(Some(field), &format!("#{number} a person deletes candidate {name}"));
        self.candidates().delete(&name, &DeleteParams::default()).await.is_ok()
    }

    /// Edits a candidate. The edit must not change permanently which candidate is the best.
    pub(super) async fn edit_candidate(&mut self, field: usize, number: u64, rng: &mut StdRng) -> bool {
        let Some(name) = self.fields[field].processes.choose(rng).map(|process| process.name.clone()) else {
            return false;
        };
        let patches = [
            json!({ "spec": { "pingTime": "2200-01-01T00:00:00.000000Z" } }),
            json!({ "spec": { "pingTime": null } }),
            json!({ "spec": { "renewTime": "1970-01-01T00:00:00.000000Z" } }),
            json!({ "spec": { "renewTime": null } }),
            json!({ "metadata": { "labels": { "app": "a" } } }),
        ];
        let patch = patches.choose(rng).cloned().unwrap_or_default();
        self.trace(Some(field), &format!("#{number} a person writes {patch} to candidate {name}"));
        self.candidates().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.is_ok()
    }

    pub(super) async fn delete(&mut self, field: usize, number: u64, rng: &mut StdRng) -> bool {
        if !self.may_delete(field) {
            return false;
        }
        self.trace(Some(field), &format!("#{number} a person deletes the Lease"));
        self.perhaps_cut_holder(field, rng);
        // A process that starts just afterwards would find the Lease free at once.
        let longest = self.fields[field].longest_term();
        self.fields[field].no_start_before = Instant::now() + longest + Duration::from_secs(45);
        self.leases().delete(&self.fields[field].lease, &DeleteParams::default()).await.is_ok()
    }

    /// Candidates are deleted with their pods.
    pub(super) async fn collect(&mut self, field: usize, pod: &str) {
        if self.fields[field].processes.iter().any(|process| process.name == pod) {
            return;
        }
        if self.fields[field].dissenters.iter().any(|process| process.name == pod && !process.is_over()) {
            // A process that still runs would create its candidate again.
            self.acts.push((Instant::now() + LOOKS_AGAIN, Act::Collect { field, pod: pod.to_owned() }));
            return;
        }
        self.trace(Some(field), &format!("candidate {pod} is collected"));
        self.site.server.kubelet().remove(&self.site.server, pod);
        drop(self.candidates().delete(pod, &DeleteParams::default()).await);
    }

    pub(super) async fn edit(&mut self, field: usize, number: u64, rng: &mut StdRng) -> bool {
        // Nothing protects the Lease of a foreign elector from an edit.
        if self.fields[field].foreign.is_some() {
            return false;
        }
        let name = self.fields[field].processes.choose(rng).map(|process| process.name.clone()).unwrap_or_default();
        let longer = self.fields[field].timing.lease_duration_seconds() + LONGER_SECONDS;
        let patches: [Value; 8] = [
            json!({ "spec": { "holderIdentity": "nobody-knows" } }),
            json!({ "spec": { "holderIdentity": name } }),
            json!({ "spec": { "leaseDurationSeconds": 2 } }),
            json!({ "spec": { "leaseDurationSeconds": longer } }),
            json!({ "spec": { "renewTime": "1970-01-01T00:00:00.000000Z" } }),
            json!({ "spec": { "renewTime": "2200-01-01T00:00:00.000000Z", "acquireTime": null } }),
            json!({ "spec": { "leaseTransitions": rng.random_range(0..i32::MAX) } }),
            json!({ "metadata": { "labels": { "hustings.io/enrolled": null } } }),
        ];
        let patch = patches.choose(rng).cloned().unwrap_or_default();
        self.trace(Some(field), &format!("#{number} a person writes {patch}"));
        self.perhaps_cut_holder(field, rng);
        self.leases().patch(&self.fields[field].lease, &PatchParams::default(), &Patch::Merge(patch)).await.is_ok()
    }

    /// Sometimes cuts the holder off, so that it does not observe the edit while it relies on its term.
    fn perhaps_cut_holder(&mut self, field: usize, rng: &mut StdRng) {
        if rng.random_bool(0.7) {
            return;
        }
        let Some(holder) = self.fields[field].standing_mut().find(|process| process.leads()) else { return };
        holder.machine.spoil().link.cut();
        let line = format!("while {} is cut off", holder.name);
        self.trace(Some(field), &line);
    }

    pub(super) fn leases(&self) -> Api<DynamicObject> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease"));
        Api::namespaced_with(self.site.server.client(NAMESPACE), NAMESPACE, &kind)
    }

    pub(super) fn candidates(&self) -> Api<LeaseCandidate> {
        Api::namespaced(self.site.server.client(NAMESPACE), NAMESPACE)
    }
}
