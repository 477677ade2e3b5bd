//! The validation of all settings, and the assembly of an elector from valid settings.

use std::sync::Arc;

use hustings_core::elector::{Config, ElectorMode, Timing};
use hustings_core::model::Pod;
use hustings_wire::settings::{InvalidElector, Settings};

use super::{ElectorBuilder, Mode, Place};
use crate::elector::campaign::{Elector, ElectorTask};
use crate::elector::driver::Driver;
use crate::elector::events::Events;
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
        let settings = Settings {
            namespace: &self.namespace,
            lease: &self.lease,
            identity: identity.as_deref(),
            candidate: match &self.mode {
                Mode::Coordinated(candidate) => Some(candidate),
                Mode::Direct(_) => None,
            },
            durations: self.durations,
        };
        let timing = settings.validate(self.misplaced.clone())?;
        Ok(Valid { identity: identity.unwrap_or_default(), timing })
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
        Driver {
            config,
            namespace: self.namespace,
            key,
            store,
            clock: self.clock,
            rng: self.rng,
            publisher: publisher.with_instance_lock(lock),
            observers,
            heartbeat: self.heartbeat,
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
        self.pod.clone().or_else(own)
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
