//! `hustings run` runs a command only while this replica leads.
//!
//! The rules that must hold:
//!
//! - The wrapper does not give the Lease up while any process lives that the command started.
//! - If the wrapper cannot renew the Lease, every such process is dead before another replica may lead.
//!
//! So there are two bounds. A voluntary end (a hand-over, or a stop of the wrapper) may take long, since renewals
//! continue. After failed renewals there is only the time between the end of the validity and the expiry of the Lease.
//!
//! Three processes enforce these rules:
//!
//! - The *wrapper*, which is this process, holds the Lease and signals the command.
//! - The [`wrapped`] process asks the kernel to kill it when the wrapper dies, and then becomes the command.
//! - The [`guardian`] kills the command when the wrapper dies or is frozen.

pub mod bounds;
pub mod guardian;
pub mod program;
pub mod restart;
pub mod signals;
pub mod wrapped;

mod admin;
mod children;
mod command_term;
mod processes;
mod validity_file;

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::{Leadership, Term};
use rustix::process::Signal;

use self::admin::Admin;
use self::children::{Children, Status};
use self::command_term::{CommandTerm, End};
use self::guardian::{Guardian, LogFlags};
use self::restart::{Backoff, Restart};
use self::signals::Stop;
use self::validity_file::ValidityFile;
use crate::candidacy::{self, Candidacy, Stage};
use crate::cli::GlobalFlags;
use crate::ops::http::ListenAddress;

/// The exit code of a wrapper that ends because it lost its Lease. Shells, `sysexits.h` and container runtimes do not
/// use this code.
pub const LOST: u8 = 79;

/// The configuration of the wrapper.
#[derive(Clone, Debug)]
pub struct Config {
    /// The replica that stands. Its stop grace is that of the command plus [`bounds::KILL_ALLOWANCE`].
    pub candidacy: Candidacy,
    /// The program and its arguments; not empty.
    pub command: Vec<OsString>,
    /// The signal that stops the command.
    pub stop_signal: Signal,
    /// How long the command may take to stop while the wrapper renews the Lease.
    pub stop_grace: Duration,
    /// How long the command may take to stop when the Lease is lost.
    pub lost_grace: Duration,
    /// When to stand again after the command has ended by itself.
    pub restart: Restart,
    /// Whether the loss of the Lease ends the wrapper.
    pub exit_on_loss: bool,
    /// Where to serve health, metrics, `/isleader` and `/range`; `None` to serve nothing.
    pub admin_address: Option<ListenAddress>,
}

/// Everything that outlives a term.
struct Wrapper {
    config: Config,
    stage: Stage,
    log: LogFlags,
    clock: Arc<dyn Clock>,
    children: Children,
    file: ValidityFile,
    stop: Stop,
    admin: Option<Admin>,
}

/// Why the wrapper no longer stands for the Lease.
enum Outcome {
    /// A signal stopped it. If the command ran then, this is its status.
    Stopped(Option<Status>),
    /// The Lease was lost, and `--exit-on-loss` is set.
    Lost,
    /// The command ended by itself, after this time.
    Exited(Status, Duration),
}

/// Runs the command in every term of this replica, until a signal stops the wrapper or the command has ended for good.
/// Returns the exit code of the process.
///
/// The caller must await it on the main thread: the kernel kills the command when the thread that started it ends.
///
/// # Errors
/// Fails if the wrapper cannot start, or if its elector dies.
pub async fn run(flags: &GlobalFlags, config: Config) -> anyhow::Result<ExitCode> {
    let terminal = std::io::stdin().is_terminal();
    let children = Children::new(terminal)?;
    let stop = signals::listen(&children, terminal)?;
    let file = ValidityFile::create()?;
    let log = LogFlags { format: flags.log_format.clone(), level: flags.log_level.clone() };
    // A wrapper that cannot serve its admin address must not stand for the Lease.
    let admin = match &config.admin_address {
        Some(address) => Some(Admin::start(address).await?),
        None => None,
    };
    let stage = config.candidacy.stage(flags, "run").await?;
    config.candidacy.check(&stage).await?;
    let wrapper = Wrapper { config, stage, log, clock: SystemClock::shared(), children, file, stop, admin };
    tokio::select! {
        code = wrapper.run() => code,
        never = wrapper.beat() => match never {},
    }
}

impl Wrapper {
    /// Stands for the Lease as often as the restart policy permits.
    async fn run(&self) -> anyhow::Result<ExitCode> {
        let mut backoff = Backoff::default();
        loop {
            match self.campaign().await? {
                Outcome::Stopped(status) => return Ok(ExitCode::from(status.map_or(0, Status::exit_code))),
                Outcome::Lost => return Ok(ExitCode::from(LOST)),
                Outcome::Exited(status, ran) => {
                    // Ctrl-C also reaches the command, which may end before the wrapper receives the signal.
                    if self.stop.token.is_cancelled() || !self.config.restart.wants(status) {
                        return Ok(ExitCode::from(status.exit_code()));
                    }
                    let wait = backoff.next(ran);
                    tracing::info!(%status, ?wait, "the command ended and will be started again");
                    let until = self.clock.now().after(wait);
                    tokio::select! {
                        () = self.clock.sleep_until(until) => {}
                        () = self.stop.token.cancelled() => return Ok(ExitCode::SUCCESS),
                    }
                }
            }
        }
    }

    async fn beat(&self) -> Infallible {
        match &self.admin {
            Some(admin) => admin.beat().await,
            None => std::future::pending().await,
        }
    }

    /// Stands with one elector, term after term, until an [`Outcome`]. The elector then has given the Lease up and
    /// deleted the candidate, so that a wait before the next start keeps no other replica from leading.
    async fn campaign(&self) -> anyhow::Result<Outcome> {
        let builder = self.config.candidacy.builder(&self.stage, &self.stop.token);
        let elector = candidacy::build(match &self.admin {
            Some(admin) => admin.measure(builder),
            None => builder,
        })?;
        if let Some(lock) = elector.instance_lock() {
            lock.let_children_inherit().context("cannot let the command inherit the lock of this instance")?;
        }
        // The guardian inherits the lock too. If the wrapper dies, it keeps the lock until it has killed the command.
        let mut guardian = Guardian::start(&self.children, self.log.clone(), self.file.folder())
            .context("cannot start the guardian")?;
        let campaign = elector.start();
        let leadership = campaign.leadership();
        if let Some(admin) = &self.admin {
            admin.stands(leadership.clone());
        }
        tracing::info!(lease = leadership.lease(), identity = leadership.identity(), "standing for the Lease");
        let outcome = self.lead(&leadership, &mut guardian).await;
        if let Some(admin) = &self.admin {
            admin.has_ended();
        }
        campaign.stop().await?;
        outcome
    }

    async fn lead(&self, leadership: &Leadership, guardian: &mut Guardian) -> anyhow::Result<Outcome> {
        let mut former = None;
        let mut last = None;
        while let Some(term) = next_term(leadership, former.as_ref()).await {
            // The elector does not give the Lease up while this value lives.
            if let Some(_work) = term.begin_work() {
                let started = self.clock.now();
                match CommandTerm::new(self, guardian, leadership, &term).serve().await? {
                    End::Exited(status) => return Ok(Outcome::Exited(status, self.clock.now().since(started))),
                    End::Stopped(status) => last = Some(status),
                    End::Lost if self.config.exit_on_loss => return Ok(Outcome::Lost),
                    End::Lost => {}
                }
                last = last.filter(|_| self.stop.token.is_cancelled());
            }
            former = Some(term);
        }
        Ok(Outcome::Stopped(last))
    }
}

/// Waits for a term other than `former`. Returns `None` if there will be none.
async fn next_term(leadership: &Leadership, former: Option<&Term>) -> Option<Term> {
    let mut views = std::pin::pin!(leadership.changes());
    loop {
        let view = views.next().await.filter(|view| !view.ended)?;
        if let Some(term) = view.term.filter(|term| former != Some(term)) {
            return Some(term);
        }
    }
}
