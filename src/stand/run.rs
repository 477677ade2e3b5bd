//! `hustings run` runs a command only while this replica leads.
//!
//! These rules must hold:
//!
//! - The wrapper does not give up the Lease while the command, or any process that it started, lives.
//! - If the wrapper cannot renew the Lease, all these processes are dead before another replica may lead.
//!
//! So there are two bounds. A voluntary end (a hand-over, or a stop of the wrapper) may take long, since renewals
//! continue. After failed renewals, only the time between the end of the validity and the expiry of the Lease is left.
//!
//! Three processes enforce these rules:
//!
//! - The *wrapper*, which is this process, holds the Lease and signals the command.
//! - The [`wrapped`] process asks the kernel to kill it when the wrapper dies. It becomes the command once the guardian
//!   knows it.
//! - The [`guardian`] kills the command when the wrapper dies or is frozen.

pub mod bounds;
pub mod guardian;
pub mod restart;
pub mod signals;
pub mod wrapped;

mod admin;
mod children;
mod command_term;
mod processes;
mod program;
mod start;
mod validity_file;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use hustings_client::Leadership;
use hustings_client::clock::SystemClock;
use hustings_client::metrics::Metrics;
use hustings_client::model::Cause;

use self::admin::Admin;
use self::children::{Children, Status};
pub use self::command_term::CommandConfig;
use self::command_term::{CommandEnd, Runner};
use self::guardian::Guardian;
use self::restart::{Restart, RestartBackoff};
use self::signals::StopSignals;
use self::validity_file::ValidityFile;
use crate::base::access::Access;
use crate::serve::http::ListenAddress;
use crate::serve::logging::ProcessLog;
use crate::serve::metrics::registry;
use crate::serve::runtime::Runtime;
use crate::stand::candidacy::{self, Candidacy, Connection};

/// The exit code of a wrapper that ends because it lost its Lease. Shells, `sysexits.h` and container runtimes do not
/// use this code.
pub const LOST: u8 = 79;

/// The configuration of the wrapper.
#[derive(Clone, Debug)]
pub struct Config {
    /// The replica that stands. Its stop grace is the command's stop grace plus [`bounds::KILL_ALLOWANCE`].
    pub candidacy: Candidacy,
    /// The command.
    pub command: CommandConfig,
    /// The signals that stop the wrapper, besides TERM and INT.
    pub stop_on: StopSignals,
    /// When to stand again after the command has ended by itself.
    pub restart: Restart,
    /// Whether the loss of the Lease ends the wrapper.
    pub exit_on_loss: bool,
    /// Where to serve health, metrics, `/isleader` and `/range`; `None` to serve nothing.
    pub admin_address: Option<ListenAddress>,
    /// The log of this process and of its guardian.
    pub log: ProcessLog,
}

/// Everything that outlives a term.
struct Wrapper {
    config: Config,
    connection: Connection,
    runner: Runner,
    metrics: Metrics,
    runtime: Runtime,
    admin: Option<Admin>,
}

/// Why the wrapper no longer stands for the Lease.
enum EndOfCandidacy {
    /// A signal stopped it. `Some` is the status of the command, if it was running.
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
/// Fails if the command or the wrapper cannot start, or if its elector dies.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<ExitCode> {
    program::check(&config.command.program)?;
    let terminal = std::io::stdin().is_terminal();
    let children = Children::new(terminal)?;
    let stop = signals::listen(&children, terminal, &config.stop_on, config.command.stop_signal)?;
    let file = ValidityFile::create()?;
    let mut registry = registry();
    let metrics = Metrics::register(&mut registry);
    let runtime = Runtime::new(stop.token.clone(), registry);
    // A wrapper that cannot serve its admin address must not stand for the Lease.
    let admin = match &config.admin_address {
        Some(address) => Some(Admin::start(address, &runtime).await?),
        None => None,
    };
    let connection = config.candidacy.connect(access, "run", &runtime.shutdown).await?;
    config.candidacy.check(&connection).await?;
    let runner = Runner { config: config.command.clone(), clock: SystemClock::shared(), children, file, stop };
    let wrapper = Wrapper { config, connection, runner, metrics, runtime, admin };
    tokio::select! {
        code = wrapper.run() => code,
        // This task supervises the command. If it is stuck, the Lease expires.
        never = wrapper.runtime.health.keep_beating() => match never {},
    }
}

impl Wrapper {
    /// Stands for the Lease again and again, as long as the restart policy permits.
    async fn run(&self) -> anyhow::Result<ExitCode> {
        let mut backoff = RestartBackoff::default();
        loop {
            match self.campaign().await? {
                EndOfCandidacy::Stopped(status) => return Ok(ExitCode::from(status.map_or(0, Status::exit_code))),
                EndOfCandidacy::Lost => return Ok(ExitCode::from(LOST)),
                EndOfCandidacy::Exited(status, ran) => {
                    // Ctrl-C also reaches the command, which may end before the wrapper receives the signal.
                    if self.runtime.shutdown.is_cancelled() || !self.config.restart.wants(status) {
                        return Ok(ExitCode::from(status.exit_code()));
                    }
                    let wait = backoff.next(ran);
                    tracing::info!(%status, ?wait, "the command ended and will be started again");
                    let until = self.runner.clock.now().after(wait);
                    tokio::select! {
                        () = self.runner.clock.sleep_until(until) => {}
                        () = self.runtime.shutdown.cancelled() => return Ok(ExitCode::SUCCESS),
                    }
                }
            }
        }
    }

    /// Stands with one elector, term after term, until an [`EndOfCandidacy`]. By then the elector has given up the Lease and
    /// deleted the candidate. Another replica can therefore lead during a wait before the next start.
    async fn campaign(&self) -> anyhow::Result<EndOfCandidacy> {
        let builder =
            self.config.candidacy.builder(&self.connection, self.runtime.health.heartbeat(), &self.runtime.shutdown)?;
        let elector = candidacy::build(builder.metrics(&self.metrics))?;
        if let Some(lock) = elector.instance_lock() {
            lock.let_children_inherit().context("cannot let the command inherit the lock of this instance")?;
        }
        // The guardian inherits the lock too. If the wrapper dies, it keeps the lock until it has killed the command.
        let mut guardian = Guardian::start(&self.runner.children, self.config.log.clone(), self.runner.file.folder())
            .context("cannot start the guardian")?;
        let campaign = elector.start();
        let leadership = campaign.leadership();
        if let Some(admin) = &self.admin {
            admin.stands(leadership.clone());
        }
        tracing::info!(lease = leadership.lease(), identity = leadership.identity(), "standing for the Lease");
        let outcome = self.lead(&leadership, &mut guardian).await;
        if matches!(outcome, Ok(EndOfCandidacy::Exited(..))) {
            leadership.set_stop_cause(Cause::WorkEnded);
        }
        if let Some(admin) = &self.admin {
            admin.has_ended();
        }
        campaign.stop().await?;
        outcome
    }

    async fn lead(&self, leadership: &Leadership, guardian: &mut Guardian) -> anyhow::Result<EndOfCandidacy> {
        let mut stopped = None;
        let mut terms = std::pin::pin!(leadership.promotions());
        while let Some(term) = terms.next().await {
            // The elector does not give up the Lease while this value lives.
            let Some(_work) = term.begin_work() else { continue };
            if let Some(admin) = &self.admin {
                admin.leads(leadership.clone());
            }
            let started = self.runner.clock.now();
            match self.runner.serve(guardian, leadership, &term).await? {
                CommandEnd::Exited(status) => {
                    return Ok(EndOfCandidacy::Exited(status, self.runner.clock.now().since(started)));
                }
                CommandEnd::Stopped(status) => stopped = Some(status),
                CommandEnd::Lost(_) if self.config.exit_on_loss => return Ok(EndOfCandidacy::Lost),
                CommandEnd::Lost(status) => {
                    // If this task was stuck, renewals may have succeeded meanwhile, and the elector would lead for ever
                    // without a command.
                    term.resign();
                    stopped = status;
                }
            }
            stopped = stopped.filter(|_| self.runtime.shutdown.is_cancelled());
        }
        Ok(EndOfCandidacy::Stopped(stopped))
    }
}
