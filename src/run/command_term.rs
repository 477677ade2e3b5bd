//! One term of the command: started, kept informed, stopped in time, and gone at the end with all it has started.

use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use futures::stream::FusedStream;
use hustings_client::{Leadership, Moment, Term};
use rustix::process::{Signal, getpid};

use super::Wrapper;
use super::bounds::{Bounds, KILL_ALLOWANCE};
use super::children::{Status, Target};
use super::guardian::Guardian;
use super::signals;
use super::validity_file::VALID_UNTIL_FILE;

/// How often what does not end is killed.
const KILL_AGAIN: Duration = Duration::from_secs(1);

/// How the command's term has ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// The command has ended by itself.
    Exited(Status),
    /// It was stopped to hand over, or since the wrapper is to stop.
    Stopped(Status),
    /// The Lease was lost.
    Lost,
}

/// One term.
pub(super) struct CommandTerm<'a> {
    wrapper: &'a Wrapper,
    guardian: &'a mut Guardian,
    leadership: &'a Leadership,
    term: &'a Term,
}

impl<'a> CommandTerm<'a> {
    pub(super) fn new(
        wrapper: &'a Wrapper,
        guardian: &'a mut Guardian,
        leadership: &'a Leadership,
        term: &'a Term,
    ) -> Self {
        Self { wrapper, guardian, leadership, term }
    }

    /// Runs the command. When this completes, nothing of it is left.
    pub(super) async fn serve(mut self) -> anyhow::Result<End> {
        let mut validity = Box::pin(self.leadership.validity().fuse());
        let Some(valid_until) = validity.next().await.flatten() else { return Ok(End::Lost) };
        self.write_file(valid_until);
        let Some(target) = self.start()? else { return Ok(End::Lost) };
        let end = self.attend(target, valid_until, validity).await;
        self.clear().await;
        end
    }

    /// Keeps the command informed and in its bounds until it has ended.
    async fn attend(
        &mut self,
        target: Target,
        valid_until: Moment,
        mut validity: impl FusedStream<Item = Option<Moment>> + Unpin,
    ) -> anyhow::Result<End> {
        let mut bounds = Bounds {
            stop_grace: self.wrapper.config.stop_grace,
            lost_grace: self.wrapper.config.lost_grace,
            valid_until,
            stopping_since: None,
        };
        self.guardian.guard(target, bounds.lost_at());
        let mut lost = false;
        let mut killed = false;
        let status = loop {
            let now = self.wrapper.clock.now();
            // Whoever keeps the term may stand still, so the time is looked at here too.
            if now >= bounds.valid_until {
                lost = true;
                if bounds.stopping_since.is_none() {
                    self.stop_command(&mut bounds, "the Lease is lost");
                }
            }
            let mut wake = bounds.next();
            if now >= bounds.kill_at() {
                if !killed {
                    tracing::warn!("the command did not stop in time and is killed");
                }
                killed = true;
                self.wrapper.children.kill();
                wake = now.after(KILL_AGAIN);
            }
            tokio::select! {
                biased;
                status = self.wrapper.children.exited() => break status?,
                Some(known) = validity.next() => {
                    bounds.valid_until = known.unwrap_or_else(|| bounds.valid_until.min(self.wrapper.clock.now()));
                    self.guardian.guard(target, bounds.lost_at());
                    self.write_file(bounds.valid_until);
                }
                () = self.term.cancelled(), if bounds.stopping_since.is_none() => {
                    if self.leadership.is_leader() {
                        let stops = self.wrapper.stop.token.is_cancelled();
                        self.stop_command(&mut bounds, if stops { "told to stop" } else { "handing over" });
                    } else {
                        bounds.valid_until = bounds.valid_until.min(self.wrapper.clock.now());
                    }
                }
                () = self.wrapper.clock.sleep_until(wake) => {}
            }
        };
        // The guardian may have killed it while this process stood still.
        lost |= self.wrapper.clock.now() >= bounds.valid_until;
        tracing::info!(%status, lost, "the command ended");
        Ok(match bounds.stopping_since {
            _ if lost => End::Lost,
            Some(_) => End::Stopped(status),
            None => End::Exited(status),
        })
    }

    /// Starts the command; `None` if the term is over by now.
    fn start(&self) -> anyhow::Result<Option<Target>> {
        let Wrapper { config, children, file, .. } = self.wrapper;
        let mut command = Command::new("/proc/self/exe");
        command.arg("wrapped").arg(getpid().as_raw_nonzero().to_string()).arg("--").args(&config.command);
        command
            .env("LEADER_LEASE", self.leadership.lease())
            .env("LEADER_IDENTITY", self.leadership.identity())
            .env("LEADER_TERM", self.term.number.to_string())
            .env("LEADER_TOKEN", self.term.token.to_string())
            .env(VALID_UNTIL_FILE, file.path());
        // This process may have stood still since the term began. As long as there is work no later term begins, so that
        // whoever leads now does so in this one. Nothing is to come between this look and the start.
        if !self.leadership.is_leader() {
            tracing::warn!(term = self.term.number, "the term was over before the command could be started");
            return Ok(None);
        }
        let target = children.start_command(&mut command).context("the command cannot be started")?;
        let (Target::Group(pid) | Target::Process(pid)) = target;
        tracing::info!(
            pid = pid.as_raw_nonzero(),
            term = self.term.number,
            token = self.term.token,
            "the command was started"
        );
        Ok(Some(target))
    }

    fn stop_command(&self, bounds: &mut Bounds, reason: &str) {
        let Wrapper { config, children, stop, clock, .. } = self.wrapper;
        tracing::info!(reason, signal = signals::name(config.stop_signal), "stopping the command");
        bounds.stopping_since = Some(clock.now());
        // Ctrl-C has reached the command already, which may not like to be told twice.
        if !stop.is_by_terminal() {
            children.signal(config.stop_signal);
        }
        // One that stands still hears nothing.
        children.signal(Signal::CONT);
    }

    /// Waits until no process of the command is left. Where that takes too long, the term is resigned, and the elector lets
    /// the Lease run out, as it does with any work that does not stop. The wait is given up only after the elector has
    /// ended: then the Lease has run out.
    async fn clear(&mut self) {
        let Wrapper { children, clock, .. } = self.wrapper;
        let overdue = async {
            clock.sleep_until(clock.now().after(KILL_ALLOWANCE)).await;
            tracing::error!("the command is not known to have ended with all its processes: the Lease will run out");
            self.term.resign();
            self.leadership.ended().await;
            clock.sleep_until(clock.now().after(KILL_ALLOWANCE)).await;
        };
        tokio::select! {
            () = children.clear() => {}
            () = overdue => tracing::error!("processes of the command are left behind"),
        }
        self.guardian.free();
        children.forget_command();
    }

    fn write_file(&self, valid_until: Moment) {
        if let Err(error) = self.wrapper.file.write(valid_until, &*self.wrapper.clock) {
            tracing::warn!(%error, "the command cannot be told until when its term is valid");
        }
    }
}
