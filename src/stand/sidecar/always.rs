//! A sidecar that stands from its start to its end. The program queries it, or reads its stream of events.

use std::sync::Arc;
use std::time::Duration;

use hustings_client::{Leadership, Term};

use super::common::{Endpoints, Sidecar};
use super::label::Keeper;
use super::routes;
use super::updates::Updates;
use crate::stand::candidacy::{range, snapshot};

/// The work of each term.
struct TermWork {
    leadership: Leadership,
    updates: Arc<Updates>,
    label: Option<Keeper>,
    handover_delay: Duration,
}

/// Stands until the sidecar is stopped.
pub(super) async fn run(sidecar: &Sidecar<'_>, endpoints: Endpoints) -> anyhow::Result<()> {
    let handover_delay = sidecar.config.handover_delay;
    if sidecar.config.candidacy.leader_elect && handover_delay.is_zero() {
        tracing::warn!(
            "--handover-delay is 0s: at a hand-over another replica may lead before the program has stopped. Set it to \
             at least the time between two queries plus the time that the program takes to stop"
        );
    }
    let elector = sidecar.elector(&sidecar.runtime.shutdown)?;
    let leadership = elector.leadership();
    let updates = Arc::new(Updates::new(leadership.clone(), sidecar.runtime.shutdown.clone()));
    let program = routes::program(&updates, &sidecar.runtime.over).merge(range::routes({
        let leadership = leadership.clone();
        move || Some(leadership.clone())
    }));
    let is_leader = snapshot::routes({
        let updates = Arc::clone(&updates);
        move || Some(updates.snapshot())
    });
    let label = sidecar.start(endpoints, program, is_leader).await?;
    let work = TermWork { leadership, updates: Arc::clone(&updates), label, handover_delay };
    // One task ends the terms, wakes the readers and beats. If it is stuck, the Lease expires.
    let (campaign, ()) = tokio::join!(elector.run(|term| work.lead(term)), updates.follow(&sidecar.runtime.health));
    sidecar.finish().await;
    Ok(campaign?)
}

impl TermWork {
    /// Serves one term. The elector does not give up the Lease before this function returns.
    async fn lead(&self, term: Term) {
        if let Some(label) = &self.label {
            label.put_on();
        }
        term.cancelled().await;
        let taken_off = async {
            if let Some(label) = &self.label {
                label.take_off().await;
            }
        };
        let noticed = async {
            // A term that is already lost cannot be extended.
            if self.leadership.is_leader() {
                tokio::time::sleep(self.handover_delay).await;
            }
        };
        tokio::join!(self.updates.term_ends(), taken_off, noticed);
    }
}

#[cfg(test)]
mod tests {
    use hustings_client::api::read_pod_label;
    use hustings_client::testing::MemoryStore;
    use hustings_client::{Durations, Elector};
    use serde_json::json;
    use tokio::net::{TcpStream, UnixStream};
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::super::label::OwnPod;
    use super::super::testing::{config, endpoints, get, leading, read_until, sidecar};
    use super::*;
    use crate::base::access::Access;
    use crate::base::cluster::testing::cluster;
    use crate::stand::candidacy::Connection;

    #[tokio::test]
    async fn a_program_follows_every_holder_until_the_sidecar_has_given_up_the_lease() {
        let (store, access, folder) = (MemoryStore::new(), Access::default(), tempfile::tempdir().unwrap());
        let path = folder.path().join("socket");
        let [renew_deadline, retry_period] = [1000, 200].map(Duration::from_millis);
        let times = Durations { lease_duration_seconds: 2, renew_deadline, retry_period, ..Durations::default() };
        let rival = Elector::direct(&store, "n", "l").identity("b").timing(times);
        let rival = rival.build().unwrap().start();
        rival.leadership().wait_until_leader().await.unwrap();
        rival.abort();
        let sidecar = sidecar(&access, config(), Connection::Memory(store.clone()));
        let (endpoints, address) = endpoints(Some(&path)).await;
        let program = async {
            let mut events = get(TcpStream::connect(address).await.unwrap(), "/events").await;
            read_until(&mut events, r#""holder":"b""#).await;
            store.edit_lease("n", "l", |lease| lease.holder = Some("c".to_owned()));
            read_until(&mut events, r#""holder":"c""#).await;
            store.edit_lease("n", "l", |lease| lease.holder = None);
            read_until(&mut events, "event: leading").await;
            let mut leader = get(UnixStream::connect(&path).await.unwrap(), "/leader").await;
            read_until(&mut leader, r#""isLeader":true"#).await;
            sidecar.runtime.shutdown.cancel();
            read_until(&mut events, "event: stopped").await;
        };
        let served = async {
            run(&sidecar, endpoints).await.unwrap();
            assert!(!path.exists(), "its servers have ended");
        };
        tokio::join!(served, program);
        assert_eq!(store.lease("n", "l").unwrap().holder, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sidecar_whose_task_is_stuck_loses_the_lease() {
        let (store, access) = (MemoryStore::new(), Access::default());
        let sidecar = sidecar(&access, config(), Connection::Memory(store.clone()));
        let mut stuck = Box::pin(run(&sidecar, endpoints(None).await.0));
        let minute = Duration::from_mins(1);
        assert!(tokio::time::timeout(minute, &mut stuck).await.is_err());
        assert_eq!(store.lease("n", "l").unwrap().holder.as_deref(), Some("a"));
        // From here on, nothing polls its task.
        let other = Elector::direct(&store, "n", "l").identity("b").build().unwrap().start();
        let leads = tokio::time::timeout(minute, other.leadership().wait_until_leader()).await;
        assert!(leads.is_ok(), "{:?}", store.lease("n", "l"));
        drop(stuck);
    }

    #[tokio::test(start_paused = true)]
    async fn the_label_does_not_stay_for_the_delay_of_the_hand_over() {
        let (cluster, requests) = cluster(|_| Some((200, json!({ "metadata": { "name": "p" } }))));
        let pod = OwnPod { name: "p".to_owned(), namespace: "n".to_owned(), uid: None };
        let label = Keeper::start(cluster.leases, read_pod_label("leader=true").unwrap(), pod).await.unwrap();
        let is_labelled = || requests.lock().unwrap().last().unwrap().body["metadata"]["labels"]["leader"] == "true";
        let (campaign, term) = leading().await;
        let leadership = campaign.leadership();
        let _running = term.begin_work().unwrap();
        let updates = Arc::new(Updates::new(leadership.clone(), CancellationToken::new()));
        let work = TermWork { leadership, updates, label: Some(label), handover_delay: Duration::from_secs(20) };
        let watching = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(is_labelled());
            term.resign();
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(!is_labelled());
        };
        tokio::join!(work.lead(term.clone()), watching);
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_leader_that_is_still_valid_waits_for_its_clients_before_it_hands_over() {
        for is_lost in [false, true] {
            let (campaign, term) = leading().await;
            let leadership = campaign.leadership();
            // It stays valid while the work goes on.
            let running = term.begin_work().unwrap();
            let updates = Arc::new(Updates::new(leadership.clone(), CancellationToken::new()));
            let handover_delay = Duration::from_secs(20);
            let work = TermWork { leadership, updates, label: None, handover_delay };
            if is_lost {
                campaign.abort();
            } else {
                term.resign();
            }
            let began = Instant::now();
            work.lead(term).await;
            assert_eq!(began.elapsed() >= handover_delay, !is_lost, "lost: {is_lost}, {:?}", began.elapsed());
            drop(running);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_does_not_end_before_its_readers_may_know_it() {
        let (campaign, term) = leading().await;
        let leadership = campaign.leadership();
        let _running = term.begin_work().unwrap();
        let updates = Arc::new(Updates::new(leadership.clone(), CancellationToken::new()));
        let mut reader = updates.reader();
        assert!(reader.next().await.snapshot.is_leader);
        let work = TermWork { leadership, updates, label: None, handover_delay: Duration::ZERO };
        term.resign();
        let began = Instant::now();
        work.lead(term).await;
        assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn readers_of_every_term_are_waited_for() {
        let (campaign, _term) = leading().await;
        let updates = Arc::new(Updates::new(campaign.leadership(), CancellationToken::new()));
        for _ in 0..2 {
            // A reader that has read `leading` and reads nothing more.
            let mut reader = updates.reader();
            assert!(reader.next().await.snapshot.is_leader);
            let began = Instant::now();
            updates.term_ends().await;
            assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
        }
    }
}
