//! The validation of all settings, and the assembly of an elector from valid settings.

use std::sync::Arc;

use hustings_core::elector::{Config, ElectorMode, InvalidTiming, Timing};
use hustings_core::model::{Nomination, Pod, Strategy};

use super::mode::{Chosen, Direct};
use super::problem::{InvalidElector, SettingProblem, candidate_problem};
use super::{Settings, Storage, UNELECTED};
use crate::api::names::{LONGEST_NAME, is_dns_label, is_dns_subdomain, is_static_pod_uid};
use crate::elector::campaign::{Elector, ElectorTask};
use crate::elector::driver::Driver;
use crate::elector::driver::asking::{Asking, FailureLog};
use crate::elector::events::Events;
use crate::elector::heartbeat::Supervision;
use crate::elector::host::POD_NAMESPACE;
use crate::elector::keys::Key;
use crate::elector::off::Off;
use crate::elector::telemetry::Observers;
use crate::instance::Instance;
use crate::leadership::leadership;
use crate::store::kubernetes::Kubernetes;

impl Settings {
    fn problems(
        &self,
        identity: Option<&str>,
        mode: &Chosen,
        broken: Option<&Vec<InvalidTiming>>,
    ) -> Vec<SettingProblem> {
        let mut problems = Vec::new();
        if !is_dns_label(&self.namespace) {
            problems.push(SettingProblem::Namespace(self.namespace.clone()));
        }
        if !is_dns_subdomain(&self.lease) {
            problems.push(SettingProblem::LeaseName(self.lease.clone()));
        }
        let has_candidate = matches!(mode, Chosen::Coordinated(_));
        match identity {
            None | Some("") => problems.push(SettingProblem::IdentityMissing),
            Some(identity) if identity.len() > LONGEST_NAME => {
                problems.push(SettingProblem::IdentityTooLong(identity.to_owned()));
            }
            Some(identity) if has_candidate && !is_dns_subdomain(identity) => {
                problems.push(SettingProblem::Identity(identity.to_owned()));
            }
            Some(_) => {}
        }
        if let Chosen::Coordinated(candidate) = mode {
            problems.extend(candidate_problem(candidate));
        }
        problems.extend(broken.into_iter().flatten().copied().map(SettingProblem::Timing));
        problems
    }

    pub(super) fn build(
        mut self,
        mode: Chosen,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Elector, InvalidElector> {
        let lease = format!("{}/{}", self.namespace, self.lease);
        let identity = self.identity.take().or_else(|| environment("POD_NAME")).or_else(|| self.host_name.take());
        let identity = identity.or_else(|| (!self.enabled).then(|| UNELECTED.to_owned()));
        let has_candidate = matches!(mode, Chosen::Coordinated(_));
        let appended = |identity: String| {
            let names_candidate = matches!(self.storage, Storage::Shared(_)) && has_candidate && !identity.is_empty();
            if names_candidate { format!("{identity}.{}", self.lease) } else { identity }
        };
        let identity = identity.map(appended);
        let timing = Timing::new(self.durations);
        let problems = self.problems(identity.as_deref(), &mode, timing.as_ref().err());
        let (Some(identity), Ok(timing), true) = (identity, timing, problems.is_empty()) else {
            return Err(InvalidElector { lease, problems });
        };
        let (publisher, leadership) = leadership(Arc::clone(&self.clock), lease.clone(), identity.clone(), timing);
        let mut observers = Observers::new();
        #[cfg(feature = "metrics")]
        observers.extend(self.metrics.map(|metrics| metrics.observer(&leadership)));
        let events = self.events.take().filter(|_| self.enabled);
        observers.extend(events.map(|client| Events::observer(client, &self.namespace, &self.lease, &identity)));
        if !self.enabled {
            let (stop_grace, clock, shutdown) = (timing.stop_grace(), self.clock, self.shutdown.clone());
            let off = Off { identity, stop_grace, clock, publisher, observers, shutdown };
            return Ok(Elector::new(ElectorTask::Off(Box::new(off)), leadership, self.shutdown));
        }
        for warning in timing.warnings() {
            tracing::warn!(lease, "{warning}");
        }
        let is_in_pod_namespace = environment(POD_NAMESPACE).is_none_or(|namespace| namespace == self.namespace);
        let pod_uid = self.pod.as_ref().map(|pod| pod.uid.clone()).or_else(|| environment("POD_UID"));
        let container = self.container.take().or_else(|| environment("CONTAINER_NAME"));
        let pod = self.pod.take().or_else(|| {
            is_in_pod_namespace.then_some(())?;
            Some(Pod { name: environment("POD_NAME")?, uid: environment("POD_UID")? })
        });
        // The garbage collector deletes a candidate whose owner the API server does not know.
        let pod = pod.filter(|pod| !is_static_pod_uid(&pod.uid));
        let random = format!("{:016x}{:016x}", self.rng.next_u64(), self.rng.next_u64());
        let Instance { session, lock } = Instance::new(pod_uid.as_deref(), container.as_deref(), &lease, &random);
        let (mode, strategy, fallback, key, nomination) = match mode {
            Chosen::Direct(Direct { key }) => (ElectorMode::Direct, Strategy::OldestEmulationVersion, true, key, None),
            Chosen::Coordinated(candidate) => {
                // `problems` has already rejected a strategy that does not parse.
                let strategy =
                    Strategy::read(candidate.strategy.as_deref()).unwrap_or(Strategy::OldestEmulationVersion);
                let nomination = Box::new(Nomination {
                    name: identity.clone(),
                    lease_name: self.lease.clone(),
                    emulation_version: candidate.emulation_version(),
                    binary_version: candidate.binary_version,
                    strategy: candidate.strategy,
                    priority: candidate.priority,
                    lease_duration_seconds: timing.lease_duration_seconds(),
                    session: session.clone(),
                    pod,
                });
                (ElectorMode::Coordinated, strategy, candidate.fallback, Key::default(), Some(nomination))
            }
        };
        let store = match self.storage {
            Storage::Given(store) => store,
            Storage::Shared(elections) => elections.store(Arc::clone(&self.clock), timing.request_timeout()),
            Storage::Cluster(client) => {
                let kubernetes = Kubernetes::new(client, Arc::clone(&self.clock), timing.request_timeout());
                Arc::new(kubernetes.seeded(self.rng.next_u64()))
            }
        };
        let asking = Asking {
            failures: FailureLog::default(),
            clock: Arc::clone(&self.clock),
            // Shorter than the elector's wait, so that a request is dropped before the elector sends the next one.
            // Otherwise the next request could use another stale connection of the same pool.
            timeout: timing.request_timeout().saturating_mul(99) / 100,
            namespace: self.namespace,
            supervision: self.heartbeat.map(|heartbeat| Supervision::new(heartbeat, &timing)),
        };
        let driver = Driver {
            config: Config {
                identity,
                lease_name: self.lease,
                session,
                mode,
                strategy,
                fallback,
                timing,
                fail_open: self.fail_open,
                keeps_on_stop: self.keeps_on_stop,
            },
            nomination,
            key,
            store,
            clock: self.clock,
            rng: self.rng,
            publisher: publisher.with_instance_lock(lock),
            observers,
            asking: Arc::new(asking),
            shutdown: self.shutdown.clone(),
        };
        Ok(Elector::new(ElectorTask::Campaign(Box::new(driver)), leadership, self.shutdown))
    }
}
