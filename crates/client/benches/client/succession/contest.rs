//! One Lease and its replicas, all with one library. Each reports here when it begins to lead and when it stops.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use futures::future::{join_all, try_join_all};
use hustings_client::{Campaign, Elector};
use hustings_controlplane::ControlPlane;
use kube::Client;
use kube::client::{Body, ClientBuilder};
use kube_lease_manager::{LeaseManagerBuilder, LeaseParams};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::util::MapRequestLayer;

/// Far longer than any step takes.
const LIMIT: Duration = Duration::from_secs(90);
/// This library's defaults; the other's are 30 s and 5 s.
const DURATION_SECONDS: u64 = 15;
const GRACE_SECONDS: u64 = 5;
/// The time over which the Leases begin: the longer of the two libraries' times between renewals. So an event at one
/// instant finds the Leases at different points between two renewals.
const BEGINNING: Duration = Duration::from_secs(DURATION_SECONDS - GRACE_SECONDS);

/// Which library the replicas use, and how many requests they have sent.
#[derive(Clone)]
pub(super) struct Kind {
    library: Library,
    sent: Arc<AtomicU32>,
}

#[derive(Clone, Copy, Debug)]
enum Library {
    Direct,
    LeaseManager,
}

/// A Lease and its replicas.
pub(super) struct Contest<'plane> {
    kind: Kind,
    plane: &'plane ControlPlane,
    namespace: String,
    lease: String,
    joined: usize,
    replicas: BTreeMap<String, Replica>,
    said: Arc<watch::Sender<Vec<Said>>>,
}

enum Replica {
    Direct(Campaign),
    /// The task releases the Lease on request; aborting the library's own task is a crash.
    LeaseManager {
        release: CancellationToken,
        task: JoinHandle<()>,
        library: AbortHandle,
    },
}

/// A replica's report of a change.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) name: String,
    pub(super) leads: bool,
    pub(super) at: Instant,
}

impl Kind {
    pub(super) fn direct() -> Self {
        Self { library: Library::Direct, sent: Arc::default() }
    }

    pub(super) fn lease_manager() -> Self {
        Self { library: Library::LeaseManager, sent: Arc::default() }
    }

    /// How many requests have been sent so far, watches among them.
    pub(super) fn requests(&self) -> u32 {
        self.sent.load(Ordering::Relaxed)
    }

    /// The requested number of Leases, each with this many replicas, one of which holds it.
    pub(super) async fn contests<'plane>(
        &self,
        plane: &'plane ControlPlane,
        leases: usize,
        replicas: usize,
    ) -> Result<Vec<Contest<'plane>>> {
        let namespace = plane.create_namespace("succession").await?;
        let share = BEGINNING / u32::try_from(leases)?;
        let contest = async |number: usize| {
            sleep(share * u32::try_from(number)?).await;
            let mut contest = Contest {
                kind: self.clone(),
                plane,
                namespace: namespace.clone(),
                lease: format!("lease-{number:03}"),
                joined: 0,
                replicas: BTreeMap::new(),
                said: Arc::default(),
            };
            for _ in 0..replicas {
                contest.join().await?;
            }
            contest.leader(None).await?;
            anyhow::Ok(contest)
        };
        try_join_all((0..leases).map(contest)).await
    }
}

impl Contest<'_> {
    /// Starts one more replica.
    pub(super) async fn join(&mut self) -> Result<()> {
        let name = format!("{}-{}", self.lease, self.joined);
        self.joined += 1;
        let client = self.client()?;
        let said = Arc::clone(&self.said);
        let replica = match self.kind.library {
            Library::Direct => {
                let elector = Elector::direct(client, &self.namespace, &self.lease).identity(&name).build()?;
                let leadership = elector.leadership();
                let identity = name.clone();
                tokio::spawn(async move {
                    let mut changes = std::pin::pin!(leadership.changes());
                    while changes.next().await.is_some() {
                        say(&said, &identity, leadership.is_leader());
                    }
                });
                Replica::Direct(elector.start())
            }
            Library::LeaseManager => {
                let manager = LeaseManagerBuilder::new(client, &self.lease)
                    .with_namespace(&self.namespace)
                    .with_parameters(LeaseParams::new(&name, DURATION_SECONDS, GRACE_SECONDS));
                let (mut leads, library) = manager.build().await?.watch().await;
                let (release, identity) = (CancellationToken::new(), name.clone());
                let (released, aborting) = (release.clone(), library.abort_handle());
                let task = tokio::spawn(async move {
                    while let Some(Ok(())) = released.run_until_cancelled(leads.changed()).await {
                        say(&said, &identity, *leads.borrow_and_update());
                    }
                    say(&said, &identity, false);
                    // A closed channel asks it to release.
                    drop(leads);
                    if let Ok(Err(error)) = library.await {
                        eprintln!("kube-lease-manager: {error}");
                    }
                });
                Replica::LeaseManager { release, task, library: aborting }
            }
        };
        self.replicas.insert(name, replica);
        Ok(())
    }

    /// Stops a replica gracefully, and returns when it reported the end of its term.
    pub(super) async fn stop(&mut self, name: &str) -> Result<Instant> {
        let replica = self.replicas.remove(name).with_context(|| format!("{name} does not run"))?;
        timeout(LIMIT, replica.stop()).await.with_context(|| format!("{name} does not stop"))??;
        let said = self.said.borrow();
        let last = said.iter().rfind(|said| said.name == name).with_context(|| format!("{name} has said nothing"))?;
        ensure!(!last.leads, "{name} has stopped, and leads");
        Ok(last.at)
    }

    /// Kills a replica, and returns the time of the kill. The API server is not notified.
    pub(super) fn kill(&mut self, name: &str) -> Result<Instant> {
        let replica = self.replicas.remove(name).with_context(|| format!("{name} does not run"))?;
        let killed_at = Instant::now();
        match replica {
            Replica::Direct(campaign) => campaign.abort(),
            Replica::LeaseManager { library, .. } => library.abort(),
        }
        Ok(killed_at)
    }

    /// Waits until a replica leads, other than `former`.
    pub(super) async fn leader(&self, former: Option<&str>) -> Result<Said> {
        let mut said = self.said.subscribe();
        let leads = said.wait_for(|said| leader(said, former).is_some());
        let Ok(said) = timeout(LIMIT, leads).await else {
            bail!("no replica leads {}/{} after {LIMIT:?} ({:?})", self.namespace, self.lease, self.kind.library);
        };
        leader(&said?, former).cloned().context("it led a moment ago")
    }

    /// Stops all replicas.
    pub(super) async fn close(self) {
        let stops = self.replicas.into_values().map(Replica::stop);
        if timeout(LIMIT, join_all(stops)).await.is_err() {
            eprintln!("not all replicas of {}/{} stop", self.namespace, self.lease);
        }
    }

    fn client(&self) -> Result<Client> {
        let sent = Arc::clone(&self.kind.sent);
        let counted = MapRequestLayer::new(move |request: http::Request<Body>| {
            sent.fetch_add(1, Ordering::Relaxed);
            request
        });
        let mut config = self.plane.config();
        // A retry inside the client would not be counted.
        config.default_retry = false;
        Ok(ClientBuilder::try_from(config)?.with_layer(&counted).build())
    }
}

impl Replica {
    async fn stop(self) -> Result<()> {
        match self {
            Self::Direct(campaign) => campaign.stop().await?,
            Self::LeaseManager { release, task, .. } => {
                release.cancel();
                task.await?;
            }
        }
        Ok(())
    }
}

/// Of the replicas that have not reported the end of their term, the last one to report that it leads.
fn leader<'said>(said: &'said [Said], former: Option<&str>) -> Option<&'said Said> {
    let last = |name: &str| said.iter().rfind(|said| said.name == name);
    said.iter().rfind(|said| {
        said.leads && former != Some(&said.name) && last(&said.name).is_some_and(|last| last.at == said.at)
    })
}

/// Notes a change, and ignores a repeated report.
fn say(said: &watch::Sender<Vec<Said>>, name: &str, leads: bool) {
    let at = Instant::now();
    said.send_if_modified(|said| {
        let led = said.iter().rfind(|said| said.name == name).is_some_and(|said| said.leads);
        if led != leads {
            said.push(Said { name: name.to_owned(), leads, at });
        }
        led != leads
    });
}
