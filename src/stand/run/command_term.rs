//! One term of the command: starts it, reports the validity to it, stops it in time, and ends all processes that it
//! started.

use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use futures::stream::FusedStream;
use hustings_client::clock::Clock;
use hustings_client::{Leadership, Moment, Term};
use rustix::process::{Signal, getpid};

use super::bounds::{Bounds, KILL_ALLOWANCE};
use super::children::{Children, SignalTarget, Status};
use super::guardian::Guardian;
use super::signals::{self, Stop};
use super::start::{StartGate, WaitingCommand};
use super::validity_file::{VALID_UNTIL_FILE, ValidityFile};

/// How often the wrapper repeats the kill of a command that does not end.
const KILL_AGAIN: Duration = Duration::from_secs(1);

/// The command, and how it stops.
#[derive(Clone, Debug)]
pub struct CommandConfig {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The signal that stops the command.
    pub stop_signal: Signal,
    /// How long the command may take to stop while the wrapper renews the Lease.
    pub stop_grace: Duration,
    /// How long the command may take to stop when the Lease is lost.
    pub lost_grace: Duration,
}

/// Runs the command in each term.
pub(super) struct Runner {
    pub(super) config: CommandConfig,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) children: Children,
    pub(super) file: ValidityFile,
    pub(super) stop: Stop,
}

/// How the command's term has ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum CommandEnd {
    /// The command ended by itself.
    Exited(Status),
    /// The wrapper stopped the command, for a hand-over or for its own stop.
    Stopped(Status),
    /// The Lease was lost, by this supervisor's reckoning. The command has this status if it was started.
    Lost(Option<Status>),
}

/// One term.
struct CommandTerm<'a> {
    runner: &'a Runner,
    guardian: &'a mut Guardian,
    leadership: &'a Leadership,
    term: &'a Term,
}

impl Runner {
    /// Runs the command for one term. When this returns, no process of the command is left, or the Lease has expired.
    pub(super) async fn serve(
        &self,
        guardian: &mut Guardian,
        leadership: &Leadership,
        term: &Term,
    ) -> anyhow::Result<CommandEnd> {
        CommandTerm { runner: self, guardian, leadership, term }.serve().await
    }
}

impl CommandTerm<'_> {
    async fn serve(mut self) -> anyhow::Result<CommandEnd> {
        let mut validity = Box::pin(self.leadership.validity().fuse());
        let Some(valid_until) = validity.next().await.flatten() else { return Ok(CommandEnd::Lost(None)) };
        self.write_file(valid_until);
        let gate = StartGate::new().context("cannot create the gate at which the command waits for its start")?;
        let target = self.start(&gate)?;
        let end = self.supervise(target, &gate, valid_until, validity).await;
        self.clear().await;
        end
    }

    /// Reports the validity to the command and enforces its bounds, until the command has ended.
    async fn supervise(
        &mut self,
        target: SignalTarget,
        gate: &StartGate,
        valid_until: Moment,
        mut validity: impl FusedStream<Item = Option<Moment>> + Unpin,
    ) -> anyhow::Result<CommandEnd> {
        let mut bounds = Bounds {
            stop_grace: self.runner.config.stop_grace,
            lost_grace: self.runner.config.lost_grace,
            valid_until,
            stopping_since: None,
            signal_at: None,
        };
        anyhow::ensure!(self.guardian.guard(target, bounds.lost_at()), "the command does not start without a guardian");
        let (mut waits, mut started) = (true, false);
        let mut lost = false;
        let mut killed = false;
        let status = loop {
            let now = self.runner.clock.now();
            // The elector's task may be stuck, so check the time here as well.
            if now >= bounds.valid_until {
                lost = true;
                if bounds.stopping_since.is_none() {
                    self.stop_command(&mut bounds, "the Lease is lost");
                }
            }
            if bounds.signal_at.is_some_and(|signal_at| now >= signal_at) {
                bounds.signal_at = None;
                self.send_stop_signal("it still runs after SIGINT");
            }
            let mut wake = bounds.next();
            if now >= bounds.kill_at() {
                if !killed {
                    tracing::warn!("the command did not stop in time and is killed");
                }
                killed = true;
                self.runner.children.kill();
                wake = now.after(KILL_AGAIN);
            }
            tokio::select! {
                biased;
                status = self.runner.children.exited() => break status?,
                arrived = gate.arrived(target.pid()), if waits => {
                    waits = false;
                    if bounds.stopping_since.is_some() {
                        // The process waits no longer, and ends.
                    } else if self.leadership.is_leader() {
                        self.let_go(arrived.context("the gate of the command is broken")?, target);
                        started = true;
                    } else {
                        bounds.valid_until = bounds.valid_until.min(self.runner.clock.now());
                    }
                }
                Some(known) = validity.next() => {
                    bounds.valid_until = known.unwrap_or_else(|| bounds.valid_until.min(self.runner.clock.now()));
                    self.guardian.guard(target, bounds.lost_at());
                    self.write_file(bounds.valid_until);
                }
                () = self.term.cancelled(), if bounds.stopping_since.is_none() => {
                    if self.leadership.is_leader() {
                        let stops = self.runner.stop.token.is_cancelled();
                        self.stop_command(&mut bounds, if stops { "the wrapper stops" } else { "handing over" });
                    } else {
                        bounds.valid_until = bounds.valid_until.min(self.runner.clock.now());
                    }
                }
                () = self.runner.clock.sleep_until(wake) => {}
            }
        };
        // The guardian may have killed the command while this process was frozen.
        lost |= self.runner.clock.now() >= bounds.valid_until;
        if started {
            tracing::info!(%status, lost, "the command ended");
        } else {
            tracing::warn!(term = self.term.number, "the term ended before the command was started");
        }
        Ok(match bounds.stopping_since {
            _ if lost => CommandEnd::Lost(started.then_some(status)),
            // The process at the gate has no exit code of the command.
            Some(_) => CommandEnd::Stopped(if started { status } else { Status::Code(0) }),
            None => CommandEnd::Exited(status),
        })
    }

    /// Starts the process that becomes the command.
    fn start(&self, gate: &StartGate) -> anyhow::Result<SignalTarget> {
        let Runner { config, children, file, .. } = self.runner;
        let mut command = Command::new("/proc/self/exe");
        command.arg("wrapped").arg(getpid().as_raw_nonzero().to_string()).arg(gate.name()).arg("--");
        command.arg(&config.program).args(&config.arguments);
        command
            .env("LEADER_LEASE", self.leadership.lease())
            .env("LEADER_IDENTITY", self.leadership.identity())
            .env("LEADER_TERM", self.term.number.to_string())
            .env("LEADER_TOKEN", self.term.token.to_string())
            .env(VALID_UNTIL_FILE, file.path());
        children.start_command(&mut command).context("cannot start the command")
    }

    /// Lets the command go. The caller has just checked that this process leads: no later term begins while this work
    /// lasts, so it leads in this term. If it freezes after the check, the guardian kills the command in time.
    fn let_go(&self, command: WaitingCommand, target: SignalTarget) {
        // The process may have been killed meanwhile; its end follows.
        let started = command.let_go();
        let pid = target.pid().as_raw_nonzero();
        let term = self.term.number;
        match started {
            Ok(()) => tracing::info!(pid, term, token = self.term.token, "started the command"),
            Err(error) => tracing::warn!(pid, term, %error, "the command ended before it was started"),
        }
    }

    fn stop_command(&self, bounds: &mut Bounds, reason: &str) {
        let Runner { children, stop, clock, .. } = self.runner;
        if stop.is_by_terminal() {
            // Ctrl-C also reached the command. Send no second signal yet: many programs then exit at once.
            tracing::info!(reason, "waiting until the command ends");
            bounds.stop_by_terminal(clock.now());
            children.signal(Signal::CONT);
        } else {
            bounds.stopping_since = Some(clock.now());
            self.send_stop_signal(reason);
        }
    }

    fn send_stop_signal(&self, reason: &str) {
        let Runner { config, children, .. } = self.runner;
        tracing::info!(reason, signal = signals::name(config.stop_signal), "stopping the command");
        children.signal(config.stop_signal);
        // A suspended process handles no signal before SIGCONT.
        children.signal(Signal::CONT);
    }

    /// Waits until no process of the command is left.
    ///
    /// If that takes longer than [`KILL_ALLOWANCE`], this function resigns the term. The elector then lets the Lease
    /// expire, as with any work that does not stop. The wait ends only after the elector has ended and the Lease has
    /// expired.
    async fn clear(&mut self) {
        let Runner { children, clock, .. } = self.runner;
        let overdue = async {
            clock.sleep_until(clock.now().after(KILL_ALLOWANCE)).await;
            tracing::error!("processes of the command may still be running: the Lease is left to expire");
            self.term.resign();
            self.leadership.ended().await;
            clock.sleep_until(clock.now().after(KILL_ALLOWANCE)).await;
        };
        tokio::select! {
            () = children.clear() => {}
            () = overdue => tracing::error!("the wrapper leaves processes of the command behind"),
        }
        self.guardian.free();
        children.forget_command();
    }

    fn write_file(&self, valid_until: Moment) {
        if let Err(error) = self.runner.file.write(valid_until, &*self.runner.clock) {
            tracing::warn!(%error, "cannot write the file that shows the command until when its term is valid");
        }
    }
}
