//! The objects that an act concerns: one Lease and the candidates of its namespace, as they are now.

use hustings_client::api::{ReadCandidate, ReadLease};
use kube::Api;

use super::requests::{REFUSED, REQUEST_TIMEOUT, explain, within};
use crate::base::cluster::{Cluster, candidates_unknown};
use crate::operate::check::Installation;
use crate::operate::status::{CandidateLists, list_candidates};

/// A Lease, its candidates, and the other candidates of its namespace.
#[derive(Clone, Debug)]
pub(super) struct ActScene {
    pub(super) lease: ReadLease,
    /// Its candidates of both APIs.
    pub(super) candidates: Vec<ReadCandidate>,
    /// The candidates of other Leases in the namespace.
    pub(super) elsewhere: Vec<ReadCandidate>,
    /// The namespaces and the names of the controllers' own Leases, as far as the command knows them.
    pub(super) own_leases: Vec<(String, String)>,
}

impl ActScene {
    /// Reads the Lease and all candidates of its namespace. `installations` are those that the command has found.
    pub(super) async fn read(cluster: &Cluster, lease: &str, installations: &[Installation]) -> anyhow::Result<Self> {
        let all = candidates(cluster).await?;
        let leases: Api<ReadLease> = Api::namespaced(cluster.leases.clone(), &cluster.namespace);
        let read =
            within(leases.get_opt(lease)).await.map_err(|error| explain(cluster, "cannot read the Lease", error))?;
        let Some(read) = read else {
            return Err(cluster.no_such_lease(lease).await.with_exit_code(REFUSED).into());
        };
        let (candidates, elsewhere) = all.into_iter().partition(|candidate| candidate.record.lease_name == lease);
        let own_leases = installations.iter().filter_map(Installation::own_lease).collect();
        Ok(Self { lease: read, candidates, elsewhere, own_leases })
    }

    /// The namespace and the name of the Lease.
    pub(super) fn key(&self) -> (&str, &str) {
        let metadata = &self.lease.metadata;
        (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
    }

    /// The Lease's candidate of this name.
    pub(super) fn candidate(&self, name: &str) -> Option<&ReadCandidate> {
        self.candidates.iter().find(|candidate| candidate.record.name == name)
    }

    /// Whether the replicas elect among themselves, without candidates and without a controller.
    pub(super) fn is_direct(&self) -> bool {
        self.candidates.is_empty() && self.lease.record.token.is_some()
    }
}

/// All candidates of the namespace, of both APIs. Without the CRD the candidates of `hustings.io` are missing. Without
/// their API, or the permission to list them, the native ones are.
pub(super) async fn candidates(cluster: &Cluster) -> anyhow::Result<Vec<ReadCandidate>> {
    Ok(list(cluster).await?.all)
}

/// The candidates of the namespace, for acts on candidates themselves.
///
/// # Errors
/// Fails if a request fails, or if there are none because the cluster lacks the CRD.
pub(super) async fn known_candidates(cluster: &Cluster) -> anyhow::Result<Vec<ReadCandidate>> {
    let listed = list(cluster).await?;
    if listed.lacks_crd && listed.all.is_empty() {
        return Err(candidates_unknown().with_exit_code(REFUSED).into());
    }
    Ok(listed.all)
}

async fn list(cluster: &Cluster) -> anyhow::Result<CandidateLists> {
    let list = list_candidates(cluster, None, Some(&cluster.namespace));
    let list = async { list.await.map_err(|(attempt, error)| explain(cluster, attempt, error)) };
    cluster.within(REQUEST_TIMEOUT, list).await
}
