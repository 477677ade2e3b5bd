//! One run: a namespace of its own on the real control plane, its processes, and the tasks that watch them.
//!
//! The rule that must hold: the verdict of a run does not depend on the machine's speed. A run waits for conditions, with
//! generous limits, and judges its end. It concludes that two lead only if each reports it before *and* after the other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use hustings_client::Leadership;
use hustings_client::api::{LeaseCandidate, ReadCandidate, ReadLease};
use hustings_client::model::SessionMark;
use hustings_world::link::Link;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::cast::{LEASE, Process, Stands, Wanted};
use crate::ledger::Ledger;
use crate::program::Programs;
use crate::purpose::OWN_LEASE;
use crate::tap::Tap;

/// How long any step may take.
const LIMIT: Duration = Duration::from_secs(150);

/// How soon a process that has died is started again.
const RESTART: Duration = Duration::from_millis(500);

const POLL: Duration = Duration::from_millis(300);

/// One run. Clones are the same.
#[derive(Clone)]
pub struct Stage(Arc<Shared>);

struct Shared {
    server: Client,
    namespace: String,
    programs: Option<Programs>,
    ledger: Arc<Ledger>,
    deaths: mpsc::UnboundedSender<Arc<str>>,
    cast: Mutex<BTreeMap<&'static str, Process>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Stage {
    /// A run in `namespace`, with programs of their own if there are any.
    pub fn new(server: Client, namespace: String, programs: Option<Programs>, ledger: Arc<Ledger>) -> Self {
        let (deaths, died) = mpsc::unbounded_channel();
        let shared =
            Shared { server, namespace, programs, ledger, deaths, cast: Mutex::default(), tasks: Mutex::default() };
        let stage = Self(Arc::new(shared));
        stage.spawn(stage.clone().restart(died));
        stage.spawn(stage.clone().watch_tokens());
        stage.spawn(stage.clone().look_often());
        stage
    }

    /// Ends everything at once.
    pub fn close(&self) {
        self.tasks().abort_all();
        self.cast().values_mut().for_each(Process::kill);
    }

    /// The record of the run.
    pub fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    /// Starts a process.
    pub fn start(&self, role: &'static str, stands: Stands) -> Result<()> {
        let Shared { server, namespace, programs, ledger, deaths, .. } = &*self.0;
        let tap = Tap {
            role: role.into(),
            link: Link::default(),
            server: server.clone(),
            ledger: Arc::clone(ledger),
            deaths: deaths.clone(),
        };
        ledger.note(&format!("{role} starts: {stands:?}"));
        let process = Process::start(stands, tap, namespace, programs.as_ref())?;
        if let Some(leadership) = process.leadership() {
            self.listen(role, &leadership);
        }
        self.cast().insert(role, process);
        Ok(())
    }

    /// `kill -9`, for good.
    pub fn kill(&self, role: &str) {
        self.0.ledger.note(&format!("{role} is killed"));
        if let Some(process) = self.cast().get_mut(role) {
            process.wanted = Wanted::Gone;
            process.kill();
        }
    }

    /// Ends a process in order. Deletes its pod, and with it the candidate if that still exists. A process may die
    /// during the stop, or its only attempt to delete the candidate may take as long as the whole stop.
    pub async fn stop(&self, role: &str) -> Result<()> {
        self.0.ledger.note(&format!("{role} is stopped"));
        let (stopped, link) = {
            let mut cast = self.cast();
            let process = cast.get_mut(role).context("no process of this name runs")?;
            (process.stop(), process.tap.link.clone())
        };
        tokio::select! {
            stopped = tokio::time::timeout(LIMIT, stopped) => stopped.with_context(|| format!("{role} does not stop"))?,
            () = died(&link) => {}
        }
        if let Some(process) = self.cast().get_mut(role) {
            process.wanted = Wanted::Gone;
        }
        self.0.ledger.note(&format!("{role} has ended"));
        if self.candidates().await?.iter().any(|candidate| candidate.record.name == role) {
            self.collect(role).await?;
        }
        Ok(())
    }

    /// Deletes a candidate, as the garbage collector or an administrator does.
    pub async fn collect(&self, name: &str) -> Result<()> {
        self.0.ledger.note(&format!("the candidate {name} is deleted from outside"));
        let candidates = Api::<LeaseCandidate>::namespaced(self.0.server.clone(), &self.0.namespace);
        match candidates.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            outcome => outcome.map(drop).with_context(|| format!("cannot delete the candidate {name}")),
        }
    }

    /// Deletes the Lease.
    pub async fn delete_lease(&self) -> Result<()> {
        self.0.ledger.note("the Lease is deleted from outside");
        self.leases().delete(LEASE, &DeleteParams::default()).await.map(drop).context("cannot delete the Lease")
    }

    /// Writes the Lease as a third party outside the election.
    pub async fn patch_lease(&self, patch: Value) -> Result<()> {
        self.0.ledger.note("the Lease is written by a third party");
        let patched = self.leases().patch(LEASE, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(drop).context("cannot write the Lease")
    }

    /// Runs a third party until the run is over.
    pub fn attend(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn(task);
    }

    /// Waits until a replica leads.
    pub async fn a_replica_leads(&self) -> Result<()> {
        self.until("a replica leads", async || Ok(!self.leaders().is_empty())).await
    }

    /// Waits until a controller that lives holds the controllers' own Lease.
    pub async fn some_controller_leads(&self) -> Result<()> {
        self.until("a controller leads", async || {
            let Some(lease) = self.lease(OWN_LEASE).await? else { return Ok(false) };
            let holder = lease.record.holder.clone().unwrap_or_default();
            Ok(self.is_awake(&holder) && matches!(lease.record.session, SessionMark::Term(_)))
        })
        .await
    }

    /// Waits until the Lease is as `is_so` says.
    pub async fn lease_is(&self, what: &str, is_so: impl Fn(&ReadLease) -> bool) -> Result<()> {
        self.until(what, async || Ok(self.lease(LEASE).await?.is_some_and(|lease| is_so(&lease)))).await
    }

    /// Waits until a controller has judged the candidate.
    pub async fn is_judged(&self, name: &str) -> Result<()> {
        self.until("the candidate is judged", async || {
            Ok(self
                .candidates()
                .await?
                .iter()
                .any(|candidate| candidate.record.name == name && candidate.record.status.state.is_some()))
        })
        .await
    }

    /// Waits until `is_so`.
    pub async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
        let began = Instant::now();
        while !is_so().await? {
            if began.elapsed() > LIMIT {
                bail!("not within {} s: {what}", LIMIT.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// The Lease of this name.
    pub async fn lease(&self, name: &str) -> Result<Option<ReadLease>> {
        self.leases().get_opt(name).await.context("cannot read a Lease")
    }

    /// All candidates.
    pub async fn candidates(&self) -> Result<Vec<ReadCandidate>> {
        let candidates = Api::<ReadCandidate>::namespaced(self.0.server.clone(), &self.0.namespace);
        Ok(candidates.list(&ListParams::default()).await.context("cannot list the candidates")?.items)
    }

    /// The replicas that report leading, with their tokens.
    pub fn leaders(&self) -> Vec<(&'static str, u64)> {
        self.cast().iter().filter_map(|(role, process)| Some((*role, process.says_that_it_leads()?))).collect()
    }

    /// How a process of this name stands, or stood.
    pub fn stands(&self, role: &str) -> Option<Stands> {
        self.cast().get(role).map(|process| process.stands)
    }

    /// Whether a process of this name runs.
    pub fn is_awake(&self, role: &str) -> bool {
        self.cast().get(role).is_some_and(|process| process.tap.link.is_awake())
    }

    /// S1: asks every replica in turn, twice. A term that is led before and after another one was also led meanwhile, since a
    /// term that has ended never resumes.
    fn look(&self) {
        let leaders =
            || -> Vec<_> { self.cast().iter().filter_map(|(role, process)| Some((*role, process.leads()?))).collect() };
        let first = leaders();
        if first.len() < 2 {
            return;
        }
        let again = leaders();
        let both: Vec<_> = first.iter().filter(|leader| again.contains(leader)).map(|(role, _)| *role).collect();
        if both.len() > 1 {
            self.0.ledger.violate(format!("S1: {} lead at the same instant", both.join(" and ")));
        }
    }

    /// Notes each change of `leadership`.
    fn listen(&self, role: &'static str, leadership: &Leadership) {
        let (stage, mut changes) = (self.clone(), Box::pin(leadership.changes()));
        self.spawn(async move {
            let mut led = false;
            while let Some(view) = changes.next().await {
                stage.look();
                let leads = view.term.is_some();
                if leads != led {
                    stage.0.ledger.note(&format!("{role} {}", if leads { "leads" } else { "leads no more" }));
                }
                led = leads;
            }
        });
    }

    async fn look_often(self) {
        loop {
            let looked = Instant::now();
            self.look();
            tokio::time::sleep(Duration::from_millis(25)).await;
            self.0.ledger.note_stall(looked.elapsed());
        }
    }

    /// S2, from the versions of the Lease.
    async fn watch_tokens(self) {
        let only = watcher::Config::default().fields(&format!("metadata.name={LEASE}"));
        let mut versions = watcher(self.leases(), only).boxed();
        let (mut greatest, mut shown, mut session) = (0, String::new(), SessionMark::Absent);
        while let Some(event) = versions.next().await {
            match event {
                Ok(Event::Apply(lease) | Event::InitApply(lease)) => {
                    let record = lease.record;
                    let line = format!(
                        "Lease: {} under {}, {} s, preferred {}{}",
                        record.holder.as_deref().unwrap_or("nobody"),
                        record.session,
                        record.duration_seconds,
                        record.preferred_holder.as_deref().unwrap_or("nobody"),
                        record.hold.as_deref().map(|hold| format!(", hold {hold}")).unwrap_or_default(),
                    );
                    if line != shown {
                        self.0.ledger.note(&line);
                        shown = line;
                    }
                    if matches!(record.session, SessionMark::Term(_)) && record.session != session {
                        let token = record.token.unwrap_or(0);
                        if token <= greatest {
                            self.0.ledger.violate(format!("S2: token {token} does not exceed {greatest}"));
                        }
                        greatest = greatest.max(token);
                    }
                    session = record.session;
                }
                Ok(Event::Delete(_)) => {
                    session = SessionMark::Absent;
                    shown.clear();
                    self.0.ledger.note("Lease: gone");
                }
                Ok(Event::Init | Event::InitDone) | Err(_) => {}
            }
        }
    }

    /// Restarts processes that died early.
    async fn restart(self, mut died: mpsc::UnboundedReceiver<Arc<str>>) {
        while let Some(role) = died.recv().await {
            let stands = {
                let mut cast = self.cast();
                let Some((role, process)) = cast.get_key_value(&*role).map(|(role, _)| *role).zip(cast.get_mut(&*role))
                else {
                    continue;
                };
                process.kill();
                (role, process.stands)
            };
            let (role, stands) = stands;
            self.0.ledger.note(&format!("{role} has died"));
            tokio::time::sleep(RESTART).await;
            let is_wanted = self.cast().get(role).is_some_and(|process| process.wanted == Wanted::Running);
            if is_wanted && let Err(error) = self.start(role, stands) {
                self.0.ledger.violate(format!("{role} cannot be started again: {error:#}"));
            }
        }
    }

    fn leases(&self) -> Api<ReadLease> {
        Api::namespaced(self.0.server.clone(), &self.0.namespace)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks().spawn(task);
    }

    fn cast(&self) -> MutexGuard<'_, BTreeMap<&'static str, Process>> {
        self.0.cast.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn died(link: &Link) {
    while link.is_awake() {
        tokio::time::sleep(POLL).await;
    }
}
