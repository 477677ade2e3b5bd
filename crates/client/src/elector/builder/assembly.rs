//! The validation of all settings, and the assembly of an elector from valid settings.

use std::sync::Arc;

use hustings_core::elector::{CandidateConfig, Config, ElectorMode, Timing};
use hustings_core::model::{Pod, Strategy};

use super::problem::{InvalidElector, SettingProblem, candidate_problem};
use super::{CandidateSettings, ElectorBuilder, Mode, Place};
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
use crate::leadership::{Leadership, Publisher, leadership};
use crate::store::Store;
use crate::store::kubernetes::Kubernetes;

/// The identity of a process without an election and without a name.
const UNELECTED: &str = "unelected";

/// The settings that need a default or a validation.
struct Valid {
    identity: String,
    timing: Timing,
}

impl ElectorBuilder {
    /// Builds the elector of a process with these environment variables. An empty one counts as missing.
    pub(super) fn build_in(self, environment: impl Fn(&str) -> Option<String>) -> Result<Elector, InvalidElector> {
        let environment = |name: &str| environment(name).filter(|value| !value.is_empty());
        let valid = self.validate(&environment)?;
        let (publisher, leadership) =
            leadership(Arc::clone(&self.clock), self.full_name(), valid.identity.clone(), valid.timing);
        let observers = self.observers(&leadership);
        let shutdown = self.shutdown.clone();
        let task = if self.enabled {
            ElectorTask::Campaign(Box::new(self.driver(valid, publisher, observers, &environment)))
        } else {
            ElectorTask::Off(Box::new(Off {
                identity: valid.identity,
                stop_grace: valid.timing.stop_grace(),
                clock: self.clock,
                publisher,
                observers,
                shutdown: self.shutdown,
            }))
        };
        Ok(Elector::new(task, leadership, shutdown))
    }

    /// `namespace/name` of the Lease.
    fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.lease)
    }

    fn validate(&self, environment: &impl Fn(&str) -> Option<String>) -> Result<Valid, InvalidElector> {
        let identity = self.identity_in(environment);
        let mut problems = Vec::new();
        if !is_dns_label(&self.namespace) {
            problems.push(SettingProblem::Namespace(self.namespace.clone()));
        }
        if !is_dns_subdomain(&self.lease) {
            problems.push(SettingProblem::LeaseName(self.lease.clone()));
        }
        let has_candidate = matches!(self.mode, Mode::Coordinated(_));
        match &identity {
            None => problems.push(SettingProblem::IdentityMissing),
            Some(identity) if identity.is_empty() => problems.push(SettingProblem::IdentityMissing),
            Some(identity) if identity.len() > LONGEST_NAME => {
                problems.push(SettingProblem::IdentityTooLong(identity.clone()));
            }
            Some(identity) if has_candidate && !is_dns_subdomain(identity) => {
                problems.push(SettingProblem::Identity(identity.clone()));
            }
            Some(_) => {}
        }
        problems.extend(self.misplaced.iter().cloned());
        if let Mode::Coordinated(candidate) = &self.mode {
            problems.extend(candidate_problem(candidate));
        }
        let timing = Timing::new(self.durations);
        problems.extend(timing.as_ref().err().into_iter().flatten().copied().map(SettingProblem::Timing));
        match (identity, timing) {
            (Some(identity), Ok(timing)) if problems.is_empty() => Ok(Valid { identity, timing }),
            _ => Err(InvalidElector { lease: self.full_name(), problems }),
        }
    }

    fn identity_in(&self, environment: impl Fn(&str) -> Option<String>) -> Option<String> {
        let identity = self.identity.clone().or_else(|| environment("POD_NAME")).or_else(|| self.host_name.clone());
        let identity = identity.or_else(|| (!self.enabled).then(|| UNELECTED.to_owned()))?;
        let names_candidate = matches!((&self.storage.0, &self.mode), (Place::Shared(_), Mode::Coordinated(_)));
        let is_appended = names_candidate && !identity.is_empty();
        Some(if is_appended { format!("{identity}.{}", self.lease) } else { identity })
    }

    fn observers(&self, leadership: &Leadership) -> Observers {
        let mut observers = Observers::new();
        #[cfg(feature = "metrics")]
        observers.extend(self.metrics.as_ref().map(|metrics| metrics.observer(leadership)));
        let events = self.events.clone().filter(|_| self.enabled);
        observers
            .extend(events.map(|client| Events::observer(client, &self.namespace, &self.lease, leadership.identity())));
        observers
    }

    fn driver(
        mut self,
        valid: Valid,
        publisher: Publisher,
        observers: Observers,
        environment: &impl Fn(&str) -> Option<String>,
    ) -> Driver {
        let Valid { identity, timing } = valid;
        for warning in timing.warnings() {
            tracing::warn!(lease = self.full_name(), "{warning}");
        }
        let Instance { session, lock } = self.instance(environment);
        let pod = self.owner(environment);
        let store = self.store(&timing);
        let (mode, key) = match self.mode {
            Mode::Direct(key) => (ElectorMode::Direct, key),
            Mode::Coordinated(candidate) => (ElectorMode::Coordinated(Box::new(candidate.config(pod))), Key::default()),
        };
        let config = Config {
            identity,
            lease_name: self.lease,
            session,
            mode,
            timing,
            fail_open: self.fail_open,
            keeps_on_stop: self.keeps_on_stop,
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
        Driver {
            config,
            key,
            store,
            clock: self.clock,
            rng: self.rng,
            publisher: publisher.with_instance_lock(lock),
            observers,
            asking: Arc::new(asking),
            shutdown: self.shutdown,
        }
    }

    /// The session of this elector, which names the pod and the container if they are known.
    fn instance(&mut self, environment: impl Fn(&str) -> Option<String>) -> Instance {
        let pod_uid = self.pod.as_ref().map(|pod| pod.uid.clone()).or_else(|| environment("POD_UID"));
        let container = self.container.clone().or_else(|| environment("CONTAINER_NAME"));
        let random = format!("{:016x}{:016x}", self.rng.next_u64(), self.rng.next_u64());
        Instance::new(pod_uid.as_deref(), container.as_deref(), &self.full_name(), &random)
    }

    /// The pod that owns the candidate.
    fn owner(&self, environment: impl Fn(&str) -> Option<String>) -> Option<Pod> {
        let own = || {
            environment(POD_NAMESPACE).is_none_or(|namespace| namespace == self.namespace).then_some(())?;
            Some(Pod { name: environment("POD_NAME")?, uid: environment("POD_UID")? })
        };
        // The garbage collector deletes a candidate whose owner the API server does not know.
        self.pod.clone().or_else(own).filter(|pod| !is_static_pod_uid(&pod.uid))
    }

    fn store(&mut self, timing: &Timing) -> Arc<dyn Store> {
        let (clock, timeout) = (Arc::clone(&self.clock), timing.request_timeout());
        match &self.storage.0 {
            Place::Cluster(client) => {
                let kubernetes = Kubernetes::new(client.clone(), clock, timeout);
                Arc::new(kubernetes.seeded(self.rng.next_u64()))
            }
            Place::Memory(store) => Arc::new(store.clone()),
            Place::Custom(store) => Arc::clone(store),
            Place::Shared(elections) => elections.store(clock, timeout),
        }
    }
}

impl CandidateSettings {
    fn config(self, pod: Option<Pod>) -> CandidateConfig {
        CandidateConfig {
            emulation_version: self.emulation_version(),
            binary_version: self.binary_version,
            // `validate` has already rejected a strategy that does not parse.
            strategy: self.strategy.and_then(|strategy| Strategy::read(Some(&strategy)).ok()),
            priority: self.priority,
            pod,
            fallback: self.fallback,
        }
    }

    /// The emulation version. Under a strategy of Hustings it defaults to the binary version.
    pub(super) fn emulation_version(&self) -> Option<String> {
        let strategy = Strategy::read(self.strategy.as_deref());
        let is_required = strategy.is_ok_and(|strategy| strategy.needs_emulation_version());
        self.emulation_version.clone().or_else(|| is_required.then(|| self.binary_version.clone()))
    }
}
