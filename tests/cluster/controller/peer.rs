//! A minimal candidate: it answers pings, takes grants up, renews and hands over.

use std::ops::Deref;
use std::time::{Duration, Instant};

use hustings_client::clock::{Clock as _, SystemClock};
use hustings_client::store::{CandidatePatch, Kubernetes, Request, Store as _, candidate_of, lease_of};
use hustings_controlplane::ControlPlane;
use hustings_core::model::{LeaseRecord, LeaseWrite, Purpose, SessionMark, Set};
use serde_json::json;
use tokio::task::JoinHandle;

use super::support::World;

/// How long its Leases last, in seconds, and so the cost of a crash in a test.
pub(crate) const LEASE_SECONDS: u32 = 6;

/// A candidate that lives as long as this value.
pub(crate) struct Peer {
    pub(crate) name: String,
    task: JoinHandle<()>,
}

struct Life {
    store: Kubernetes,
    namespace: String,
    lease: String,
    name: String,
    renewed: Instant,
}

impl Peer {
    /// A candidate that emulates its own version.
    pub(crate) async fn start<Plane: Deref<Target = ControlPlane>>(
        world: &World<Plane>,
        lease: &str,
        name: &str,
        version: &str,
    ) -> Self {
        let spec = json!({ "leaseName": lease, "binaryVersion": version, "emulationVersion": version });
        world.stand(name, spec).await;
        Self::live(world, lease, name)
    }

    /// A candidate whose object exists.
    pub(crate) fn live<Plane: Deref<Target = ControlPlane>>(world: &World<Plane>, lease: &str, name: &str) -> Self {
        let life = Life {
            store: world.store(),
            namespace: world.namespace.clone(),
            lease: lease.to_owned(),
            name: name.to_owned(),
            renewed: Instant::now(),
        };
        Self { name: name.to_owned(), task: tokio::spawn(life.go_on()) }
    }

    /// Crashes: the candidate and the Lease stay unchanged.
    pub(crate) fn crash(self) {
        drop(self);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Life {
    async fn go_on(mut self) {
        loop {
            self.answer().await;
            self.hold().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn answer(&self) {
        let read = Request::ReadCandidate { candidate: (&self.name).into() };
        let Ok(candidate) = candidate_of(self.store.send(&self.namespace, &read).await) else { return };
        if candidate.ping_time > candidate.renew_time {
            let renew_time = SystemClock.wall().later_than(candidate.renew_time).later_than(candidate.ping_time);
            let ack = Request::patch_candidate(&self.name, candidate.uid, CandidatePatch::Renew(renew_time));
            drop(self.store.send(&self.namespace, &ack).await);
        }
    }

    async fn hold(&mut self) {
        let read = Request::read_lease(&self.lease);
        let Ok(record) = lease_of(self.store.send(&self.namespace, &read).await) else { return };
        if record.holder.as_ref() != Some(&self.name) {
            return;
        }
        let write = match &record.preferred_holder {
            _ if record.is_open() => self.take_up(&record),
            Some(preferred) if *preferred != self.name => hand_over(&record, preferred),
            _ if self.renewed.elapsed() > Duration::from_millis(500) => renew(&record),
            _ => return,
        };
        let write = Request::write_lease(&self.lease, write);
        if self.store.send(&self.namespace, &write).await.is_ok() {
            self.renewed = Instant::now();
        }
    }

    fn take_up(&self, record: &LeaseRecord) -> LeaseWrite {
        let stamp = format!("{}-session/1/{LEASE_SECONDS}", self.name);
        LeaseWrite {
            session: Set::To(SessionMark::read(Some(&stamp))),
            token: Set::To(record.resource_version),
            duration_seconds: Set::To(LEASE_SECONDS),
            renew_time: Set::To(SystemClock.wall().later_than(record.renew_time)),
            preferred_holder: Set::Remove,
            ..LeaseWrite::new(Purpose::TakeUp, record)
        }
    }
}

fn renew(record: &LeaseRecord) -> LeaseWrite {
    let renew_time = Set::To(SystemClock.wall().later_than(record.renew_time));
    LeaseWrite { renew_time, ..LeaseWrite::new(Purpose::Renew, record) }
}

fn hand_over(record: &LeaseRecord, preferred: &str) -> LeaseWrite {
    let now = SystemClock.wall().later_than(record.renew_time);
    LeaseWrite {
        holder: Set::To(preferred.to_owned()),
        session: Set::To(SessionMark::Open),
        duration_seconds: Set::To(5),
        acquire_time: Set::To(now),
        renew_time: Set::To(now),
        transitions: Set::To(record.transitions + 1),
        preferred_holder: Set::Remove,
        ..LeaseWrite::new(Purpose::HandOver, record)
    }
}
