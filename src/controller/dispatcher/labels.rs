//! Which label each Lease asks for, and in which Pod its holder runs.

use std::future::pending;
use std::sync::Arc;

use hustings_core::election::LeaseVerdict;
use hustings_core::model::Observed;

use super::Dispatcher;
use crate::controller::key::LeaseKey;
use crate::controller::leader_labels::{LabelKey, LeaderLabels, ProblemChange};

/// Waits for the next change of what keeps a label from its place. This function is cancel safe.
pub(super) async fn change(labels: Option<&mut LeaderLabels>) -> ProblemChange {
    let Some(labels) = labels else { return pending().await };
    loop {
        if let Some(change) = labels.finished().await {
            return change;
        }
    }
}

impl Dispatcher {
    /// Lets the label of this Lease follow its holder.
    pub(super) fn follow_label(&mut self, lease: &LeaseKey, verdict: &LeaseVerdict) {
        let (Some(labels), Some(pods)) = (&mut self.labels, &self.pods) else { return };
        let Some(election) = self.elections.get(lease) else { return };
        let wanted = election.leader_label().map(|label| {
            let own = lease.namespace();
            let namespace = Some(election.namespace_of_pods()).filter(|namespace| *namespace != &**own);
            let namespace = namespace.map_or_else(|| Arc::clone(own), Arc::from);
            (LabelKey { namespace, label: label.clone() }, election.holder_pod(verdict))
        });
        // Before the Pods are known, every holder would seem to run in none.
        if wanted.as_ref().is_some_and(|(key, _)| pods.awaits_list_of(&key.namespace)) {
            return;
        }
        if let Some(change) = labels.set_desired(lease, wanted) {
            self.report_label(&change);
        }
    }

    /// Waits for the writes of labels in progress.
    pub(super) async fn finish_labels(&mut self) {
        if let Some(labels) = &mut self.labels {
            labels.stop().await;
        }
    }

    /// The Lease is gone, and so is what it asked for.
    pub(super) fn forget_label(&mut self, lease: &LeaseKey) {
        if let Some(labels) = &mut self.labels {
            drop(labels.set_desired(lease, None));
        }
    }

    /// Reports what keeps the label of a Lease from its place, or that nothing does any more.
    pub(super) fn report_label(&mut self, change: &ProblemChange) {
        let election = self.elections.get(&change.lease);
        let record = election.and_then(|election| election.lease()).map(Observed::record);
        let uid = record.map(|record| record.uid.clone()).unwrap_or_default();
        self.parts.reporting.label(&change.lease, &uid, change.problem.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use hustings_client::api::ReadLease;
    use hustings_core::model::PodRecord;
    use serde_json::{Value, json};

    use super::*;
    use crate::controller::dispatcher::DispatcherParts;
    use crate::controller::dispatcher::tests::{dispatcher_of, parts};
    use crate::controller::leader_labels::tests::{labels, on_pods, problem, settle};
    use crate::controller::watched::{Scope, WatchEvent};
    use crate::serve::metrics::Resource;

    fn lease(version: u32, holder: &str, annotations: &Value) -> WatchEvent {
        let metadata = json!({ "namespace": "n", "name": "l", "uid": "l", "resourceVersion": version.to_string(),
            "labels": { "hustings.io/enrolled": "true" }, "annotations": annotations });
        let spec = json!({ "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:06Z" });
        let lease = ReadLease::from_json(json!({ "metadata": metadata, "spec": spec }));
        WatchEvent::Lease(LeaseKey::new("n", "l"), Arc::new(lease.record))
    }

    /// A controller that starts would otherwise take each label from its leader, and give it back.
    #[tokio::test(start_paused = true)]
    async fn a_label_is_left_alone_until_the_pods_are_known_and_by_a_standby() {
        let (kept, server) = labels(&[], |_| false);
        server.lock().unwrap().get_mut("b").unwrap().0 = Some("leader".to_owned());
        let mut dispatcher = dispatcher_of(DispatcherParts { labels: Some(kept), ..parts() }, false);
        let key = LeaseKey::new("n", "l");
        let annotations = json!({ "hustings.io/assist": "", "hustings.io/leader-label": "role=leader" });
        dispatcher.handle(lease(5, "a_1", &annotations));
        for kind in [Resource::Leases, Resource::Candidates] {
            dispatcher.handle(WatchEvent::Listed(Scope::Cluster, kind));
        }
        let on_b = on_pods(&server);
        for is_listed in [false, true] {
            for leads in [false, true] {
                dispatcher.leads = leads;
                dispatcher.decide(key.clone());
                settle(dispatcher.labels.as_mut().unwrap()).await;
                assert_eq!(on_pods(&server) == on_b, !is_listed || !leads, "{is_listed} {leads}");
            }
            dispatcher.handle(WatchEvent::PodListBegan(Scope::Cluster));
            for name in ["a", "b"] {
                let pod = PodRecord { name: name.into(), uid: name.into(), ..PodRecord::default() };
                dispatcher.handle(WatchEvent::Pod("n".into(), pod.into()));
            }
            dispatcher.handle(WatchEvent::PodsListed(Scope::Cluster));
        }
        assert_eq!(on_pods(&server), [("a".to_owned(), "leader".to_owned())]);

        // Without the Lease, nobody asks for the label.
        dispatcher.forget(&key);
        settle(dispatcher.labels.as_mut().unwrap()).await;
        assert_eq!(on_pods(&server), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_label_on_pods_in_a_namespace_that_is_not_watched_is_reported() {
        let (kept, _) = labels(&[], |_| false);
        let scope = Scope::Namespace("n".to_owned());
        let mut dispatcher =
            Dispatcher::new(DispatcherParts { labels: Some(kept), ..parts() }, std::slice::from_ref(&scope));
        dispatcher.leads = true;
        let key = LeaseKey::new("n", "l");
        let annotations = json!({ "hustings.io/assist": "pod-namespace=m", "hustings.io/leader-label": "role=leader" });
        dispatcher.handle(lease(5, "a_1", &annotations));
        for kind in [Resource::Leases, Resource::Candidates] {
            dispatcher.handle(WatchEvent::Listed(scope.clone(), kind));
        }
        dispatcher.decide(key.clone());
        let problem = problem(dispatcher.labels.as_ref().unwrap(), &key).unwrap();
        assert!(problem.contains("the Pods are in another namespace than the Lease"), "{problem}");
    }
}
