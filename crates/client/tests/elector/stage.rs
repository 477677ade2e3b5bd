//! What every test needs: its own namespace, clients like an elector's, and functions that wait for a condition.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hustings_client::api::{ReadCandidate, ReadLease, crd, names};
use hustings_client::clock::SystemClock;
use hustings_client::model::{LeaseRecord, LeaseWrite};
use hustings_client::store::{CandidatePatch, Failure, Kubernetes, Request, Store as _, lease_of};
use hustings_client::{Durations, Elector, ElectorBuilder, Leadership, WireTime, lease_client};
pub(crate) use hustings_controlplane::PATIENCE;
use hustings_controlplane::{Shared, serve};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::timeout;

/// A lease so long that no test can pass by waiting for its expiry, with frequent renewals.
pub(crate) const LONG: Durations = Durations {
    lease_duration_seconds: 300,
    renew_deadline: Duration::from_secs(250),
    retry_period: Duration::from_millis(300),
    jitter_percent: 20,
    request_timeout: Duration::from_secs(5),
    stop_grace: Duration::from_secs(30),
};

/// A lease that expires within the time that a test waits.
pub(crate) const SHORT: Durations = Durations {
    lease_duration_seconds: 10,
    renew_deadline: Duration::from_millis(9_500),
    request_timeout: Duration::from_secs(3),
    ..LONG
};

/// The name of the Lease in each test's namespace.
pub(crate) const LEASE: &str = "lease";

/// A namespace of one test on the shared control plane.
pub(crate) struct Stage {
    pub(crate) plane: Shared,
    pub(crate) namespace: String,
    pub(crate) client: Client,
}

impl Stage {
    pub(crate) async fn new(prefix: &str) -> Result<Self> {
        let plane = hustings_controlplane::shared().await?;
        let namespace = plane.create_namespace(prefix).await?;
        let client = lease_client(plane.config())?;
        Ok(Self { plane, namespace, client })
    }

    /// A namespace in a cluster with the CRD installed.
    pub(crate) async fn with_candidates(prefix: &str) -> Result<Self> {
        let stage = Self::new(prefix).await?;
        serve(&stage.client, &crd()).await?;
        Ok(stage)
    }

    /// A namespace with a Lease that has been given up. It is free at once, unlike a newly created one, which counts as
    /// held for 15 s.
    pub(crate) async fn with_open_lease(prefix: &str) -> Result<Self> {
        let stage = Self::new(prefix).await?;
        stage.create_lease(LEASE).await?;
        stage.edit_lease(&json!({ "metadata": { "annotations": { names::SESSION: "open" } } })).await?;
        Ok(stage)
    }

    pub(crate) fn leases(&self) -> Api<ReadLease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn candidates(&self) -> Api<ReadCandidate> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn store(&self) -> Kubernetes {
        Kubernetes::new(self.client.clone(), Arc::new(SystemClock), Duration::from_secs(10))
    }

    pub(crate) async fn create_lease(&self, name: &str) -> Result<LeaseRecord, Failure> {
        lease_of(self.store().send(&self.namespace, &Request::create_lease(name)).await)
    }

    pub(crate) async fn write_lease(&self, name: &str, write: &LeaseWrite) -> Result<LeaseRecord, Failure> {
        lease_of(self.store().send(&self.namespace, &Request::write_lease(name, write.clone())).await)
    }

    pub(crate) async fn ping(&self, name: &str, uid: &str, time: WireTime) -> Result<(), Failure> {
        let ping = Request::patch_candidate(name, uid, CandidatePatch::Ping(time));
        self.store().send(&self.namespace, &ping).await.map(drop)
    }

    /// A direct elector with this identity, and with its own client, as in a separate process.
    pub(crate) fn direct(&self, identity: &str) -> Result<ElectorBuilder> {
        let client = lease_client(self.plane.config())?;
        Ok(Elector::direct(client, &self.namespace, LEASE).identity(identity).timing(LONG))
    }

    /// A candidate of this version, with its own client. It waits for a controller, however long a test takes to act as one.
    pub(crate) fn coordinated(&self, identity: &str, version: &str) -> Result<ElectorBuilder> {
        let client = lease_client(self.plane.config())?;
        let elector = Elector::coordinated(client, &self.namespace, LEASE, version).fallback(false);
        Ok(elector.identity(identity).timing(LONG))
    }

    pub(crate) async fn lease(&self) -> Result<ReadLease> {
        Ok(self.leases().get(LEASE).await?)
    }

    /// Writes the Lease as a client that ignores every rule.
    pub(crate) async fn edit_lease(&self, patch: &Value) -> Result<ReadLease> {
        Ok(self.leases().patch(LEASE, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Waits until the Lease satisfies `like`.
    pub(crate) async fn lease_where(&self, what: &str, like: impl Fn(&ReadLease) -> bool) -> Result<ReadLease> {
        eventually(what, || async { self.lease().await.ok().filter(&like) }).await
    }

    /// Waits until the candidate satisfies `like`.
    pub(crate) async fn candidate_where(
        &self,
        name: &str,
        what: &str,
        like: impl Fn(&ReadCandidate) -> bool,
    ) -> Result<ReadCandidate> {
        eventually(what, || async { self.candidates().get(name).await.ok().filter(&like) }).await
    }
}

/// Calls `ask` until it returns a value. Fails after [`PATIENCE`].
pub(crate) async fn eventually<T, F>(what: &str, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Option<T>>,
{
    let answer = hustings_controlplane::eventually(async || ask().await.ok_or(())).await;
    answer.map_err(|()| anyhow::anyhow!("{what}: not within {PATIENCE:?}"))
}

/// Waits for a term of this elector.
pub(crate) async fn leads(leadership: &Leadership) -> Result<hustings_client::Term> {
    let term = timeout(PATIENCE, leadership.wait_until_leader()).await;
    let term = term.with_context(|| {
        let holder = leadership.holder().unwrap_or_else(|| "nobody".to_owned());
        format!("{} does not lead within {PATIENCE:?}, {holder} does", leadership.identity())
    })?;
    term.with_context(|| format!("{} has ended", leadership.identity()))
}

/// Returns the output of the future. Fails after [`PATIENCE`].
pub(crate) async fn patiently<T: Debug>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    timeout(PATIENCE, future).await.with_context(|| format!("{what}: not within {PATIENCE:?}"))
}
