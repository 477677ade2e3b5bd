//! `hustings run`: a command that runs only while this replica leads.
//!
//! The rule that must hold: as long as any process lives that the command has started, the Lease is not given up; and
//! when the Lease cannot be renewed, every such process is dead before another replica may lead. So there are two bounds.
//! A voluntary end (hand-over, or a wrapper that is told to stop) may take long, since renewals go on; after failed
//! renewals there is only the time between the end of the validity and that of the Lease.
//!
//! Three processes see to it. The *wrapper* is this one: it holds the Lease and signals the command. The command itself
//! is started by way of a [`wrapped`] process, which has the kernel kill it when the wrapper dies, and becomes it. The
//! [`guardian`] kills the command when the wrapper dies or stands still.

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

/// The exit code of a wrapper that was to end with the loss of its Lease. It is none of the shell's, of `sysexits.h` or
/// of what container runtimes use.
pub const LOST: u8 = 79;

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// For what it stands. Its stop grace is that of the command.
    pub candidacy: Candidacy,
    /// The program and its arguments; not empty.
    pub command: Vec<OsString>,
    /// What tells the command to stop.
    pub stop_signal: Signal,
    /// How long the command may take to stop while the Lease is being renewed.
    pub stop_grace: Duration,
    /// How long it may take to stop when the Lease is lost.
    pub lost_grace: Duration,
    /// When it is started again after it has ended by itself.
    pub restart: Restart,
    /// Whether the loss of the Lease ends the wrapper.
    pub exit_on_loss: bool,
    /// Where health, metrics and `/isleader` are served, if they are.
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

/// Why the wrapper no longer stands.
enum Outcome {
    /// It was told to stop; with the command's status if one ran then.
    Stopped(Option<Status>),
    /// It was to end with the loss of the Lease.
    Lost,
    /// The command has ended by itself, after this time.
    Exited(Status, Duration),
}

/// Runs the command in every term of this replica, until told to stop or until the command has ended for good.
///
/// It must be awaited on the main thread: the kernel kills the command when the thread ends that has started it.
pub async fn run(flags: &GlobalFlags, config: Config) -> anyhow::Result<ExitCode> {
    let terminal = std::io::stdin().is_terminal();
    let children = Children::new(terminal)?;
    let stop = signals::listen(&children, terminal)?;
    let file = ValidityFile::create()?;
    let log = LogFlags { format: flags.log_format.clone(), level: flags.log_level.clone() };
    // A replica that cannot be asked does not stand.
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
    /// Stands again and again, as the policy of restarts says.
    async fn run(&self) -> anyhow::Result<ExitCode> {
        let mut backoff = Backoff::default();
        loop {
            match self.campaign().await? {
                Outcome::Stopped(status) => return Ok(ExitCode::from(status.map_or(0, Status::exit_code))),
                Outcome::Lost => return Ok(ExitCode::from(LOST)),
                Outcome::Exited(status, ran) => {
                    // Ctrl-C reaches the command too, which may have ended before the wrapper has heard of it.
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

    /// Stands once, for term after term, until there is a reason not to. Then the Lease has been given up, and the
    /// candidate is gone: whoever waits before it starts the command again keeps nobody else from leading.
    async fn campaign(&self) -> anyhow::Result<Outcome> {
        let builder = self.config.candidacy.builder(&self.stage, &self.stop.token);
        let elector = candidacy::build(match &self.admin {
            Some(admin) => admin.measure(builder),
            None => builder,
        })?;
        if let Some(lock) = elector.instance_lock() {
            lock.let_children_inherit().context("the command cannot inherit the lock of this instance")?;
        }
        // It inherits the lock as well, and keeps it until it has ended what a dead wrapper has left.
        let mut guardian = Guardian::start(&self.children, self.log.clone(), self.file.folder())
            .context("the guardian cannot be started")?;
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
            // As long as this lives, the Lease is not given up.
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

/// Waits for a term other than `former`; `None` says that there will be none.
async fn next_term(leadership: &Leadership, former: Option<&Term>) -> Option<Term> {
    let mut views = std::pin::pin!(leadership.changes());
    loop {
        let view = views.next().await.filter(|view| !view.ended)?;
        if let Some(term) = view.term.filter(|term| former != Some(term)) {
            return Some(term);
        }
    }
}
