//! What every test needs: a namespace of its own, clients as an elector has them, and a patient look at the cluster.

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

/// A lease so long that nobody waits for its expiry by mistake, with renewals that come often.
pub(crate) const LONG: Durations = Durations {
    lease_duration_seconds: 300,
    renew_deadline: Duration::from_secs(250),
    retry_period: Duration::from_millis(300),
    jitter_percent: 20,
    request_timeout: Duration::from_secs(5),
    stop_grace: Duration::from_secs(30),
};

/// A lease that expires within a test's patience.
pub(crate) const SHORT: Durations = Durations {
    lease_duration_seconds: 4,
    renew_deadline: Duration::from_millis(3_900),
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

    /// With the CRD installed.
    pub(crate) async fn with_candidates(prefix: &str) -> Result<Self> {
        let stage = Self::new(prefix).await?;
        serve(&stage.client, &crd()).await?;
        Ok(stage)
    }

    /// With a Lease that has been given up: unlike one that was just created, it makes nobody wait for 15 s.
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

    pub(crate) async fn write_lease(
        &self,
        name: &str,
        write: &LeaseWrite,
        current: &LeaseRecord,
    ) -> Result<LeaseRecord, Failure> {
        lease_of(self.store().send(&self.namespace, &Request::write_lease(name, write.clone(), current)).await)
    }

    pub(crate) async fn ping(&self, name: &str, uid: &str, time: WireTime) -> Result<(), Failure> {
        let ping = Request::patch_candidate(name, uid, CandidatePatch::Ping(time));
        self.store().send(&self.namespace, &ping).await.map(drop)
    }

    /// An elector of this identity, which has a client of its own as a process would.
    pub(crate) fn elector(&self, identity: &str) -> Result<ElectorBuilder> {
        let client = lease_client(self.plane.config())?;
        Ok(Elector::builder(client, &self.namespace, LEASE).identity(identity).timing(LONG))
    }

    pub(crate) async fn lease(&self) -> Result<ReadLease> {
        Ok(self.leases().get(LEASE).await?)
    }

    /// Writes the Lease as a client that ignores every rule.
    pub(crate) async fn edit_lease(&self, patch: &Value) -> Result<ReadLease> {
        Ok(self.leases().patch(LEASE, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    pub(crate) async fn edit_candidate(&self, name: &str, patch: &Value) -> Result<ReadCandidate> {
        Ok(self.candidates().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Waits for a Lease like this.
    pub(crate) async fn lease_where(&self, what: &str, like: impl Fn(&ReadLease) -> bool) -> Result<ReadLease> {
        eventually(what, || async { self.lease().await.ok().filter(&like) }).await
    }

    /// Waits for a candidate like this.
    pub(crate) async fn candidate_where(
        &self,
        name: &str,
        what: &str,
        like: impl Fn(&ReadCandidate) -> bool,
    ) -> Result<ReadCandidate> {
        eventually(what, || async { self.candidates().get(name).await.ok().filter(&like) }).await
    }
}

/// Asks until there is an answer, for as long as patience lasts.
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

/// Waits until this elector leads no more.
pub(crate) async fn leads_no_more(leadership: &Leadership) -> Result<()> {
    let what = format!("{} leads no more", leadership.identity());
    eventually(&what, || async { (!leadership.is_leader()).then_some(()) }).await
}

/// The future's output, if it comes within the test's patience.
pub(crate) async fn patiently<T: Debug>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    timeout(PATIENCE, future).await.with_context(|| format!("{what}: not within {PATIENCE:?}"))
}
