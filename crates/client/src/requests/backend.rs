//! Requests as the backend of an elector. The inherent functions return whole objects; electors need only their
//! records.

use futures::{FutureExt, StreamExt, TryFutureExt};
use hustings_core::model::{CandidateRecord, LeaseRecord, LeaseWrite, WireTime};

use super::Requests;
use crate::api::{ReadCandidate, ReadLease, ack_patch};
use crate::backend::{Answer, Backend, Sightings};
use crate::nomination::Nomination;
use crate::watch::watch_object;

impl Backend for Requests {
    fn read_lease<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, LeaseRecord> {
        async move { Ok(self.read_lease(namespace, name).await?.record) }.boxed()
    }

    fn create_lease<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, LeaseRecord> {
        async move { Ok(self.create_lease(namespace, name).await?.record) }.boxed()
    }

    fn write_lease<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        write: &'a LeaseWrite,
        current: &'a LeaseRecord,
    ) -> Answer<'a, LeaseRecord> {
        async move { Ok(self.write_lease(namespace, name, write, current).await?.record) }.boxed()
    }

    fn watch_lease(&self, namespace: &str, name: &str) -> Sightings<LeaseRecord> {
        let leases = watch_object::<ReadLease>(self.client.clone(), namespace, name, self.seed);
        leases.map(|lease| lease.map(|lease| lease.record)).boxed()
    }

    fn read_candidate<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, CandidateRecord> {
        async move { Ok(self.read_candidate(namespace, name).await?.record) }.boxed()
    }

    fn create_candidate<'a>(&'a self, nomination: &'a Nomination, renew_time: WireTime) -> Answer<'a, CandidateRecord> {
        let candidate = nomination.candidate(renew_time);
        async move { Ok(self.create_candidate(&nomination.namespace, &candidate).await?.record) }.boxed()
    }

    fn renew_candidate<'a>(
        &'a self,
        nomination: &'a Nomination,
        uid: &'a str,
        renew_time: WireTime,
        refresh: bool,
    ) -> Answer<'a, CandidateRecord> {
        let patch = if refresh { nomination.refresh_patch(uid, renew_time) } else { ack_patch(uid, renew_time) };
        let Nomination { namespace, name, .. } = nomination;
        async move { Ok(self.patch_candidate(namespace, name, &patch).await?.record) }.boxed()
    }

    fn delete_candidate<'a>(&'a self, namespace: &'a str, name: &'a str, uid: &'a str) -> Answer<'a, ()> {
        self.delete_candidate(namespace, name, uid, None).map_ok(drop).boxed()
    }

    fn list_candidates<'a>(&'a self, namespace: &'a str, lease: &'a str) -> Answer<'a, Vec<CandidateRecord>> {
        async move {
            let candidates = self.list_candidates(namespace, lease).await?;
            Ok(candidates.into_iter().map(|candidate| candidate.record).collect())
        }
        .boxed()
    }

    fn watch_candidate(&self, namespace: &str, name: &str) -> Sightings<CandidateRecord> {
        let candidates = watch_object::<ReadCandidate>(self.client.clone(), namespace, name, self.seed);
        candidates.map(|candidate| candidate.map(|candidate| candidate.record)).boxed()
    }
}
