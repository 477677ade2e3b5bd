//! The flags of `hustings run`, and of the two processes that it starts from its own binary.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hustings_core::elector::{Durations, Timing};
use rustix::process::Signal;

use super::Mistakes;
use super::timing::valid;
use crate::base::duration;
use crate::base::parsers::{one_of, value};
use crate::serve::http::ListenAddress;
use crate::serve::logging::ProcessLog;
use crate::stand::candidacy::Candidacy;
use crate::stand::run::bounds::{KILL_ALLOWANCE, default_lost_grace, longest_lost_grace};
use crate::stand::run::restart::Restart;
use crate::stand::run::signals::{StopSignals, stop_signal};
use crate::stand::run::{CommandConfig, Config};

/// The end of `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  the command's own, or 128 plus the number of the signal that ended it
  0    a signal stopped the wrapper while no command ran
  1    the wrapper could not start (a port in use, no kubeconfig), or it failed otherwise
  2    the command line is invalid
  79   the Lease was lost, with --exit-on-loss
  126  the command is not executable
  127  the command was not found";

/// The flags of `hustings run`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct RunFlags {
    /// The flags of the candidacy.
    #[command(flatten)]
    pub candidacy: Candidacy,
    /// The signals that stop the wrapper as TERM and INT do, by name or number, separated by commas; give the STOPSIGNAL
    /// of the image, such as QUIT or RTMIN+3
    #[arg(long, value_name = "SIGNALS", default_value = "", hide_default_value = true,
        value_parser = value(StopSignals::read))]
    pub stop_on: StopSignals,
    /// The signal with which the wrapper stops the command, by name or number
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", value_parser = value(stop_signal))]
    pub stop_signal: Signal,
    /// How long the command may take to stop before the wrapper kills it; the wrapper renews the Lease meanwhile
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = value(duration::parse))]
    pub stop_grace: Duration,
    /// How long the command may take to stop when the Lease is lost; by default half the time between renew deadline
    /// and lease duration
    #[arg(long, value_name = "DURATION", value_parser = value(duration::parse))]
    pub lost_grace: Option<Duration>,
    /// When to stand for election again after the command has ended by itself: never, on-failure or always
    #[arg(long, value_name = "WHEN", default_value = "never",
        value_parser = one_of("a restart policy", &Restart::NAMES))]
    pub restart: Restart,
    /// Exit when the Lease is lost, instead of standing again
    #[arg(long)]
    pub exit_on_loss: bool,
    /// Where to serve health, metrics, /isleader and /range: `:PORT` or `HOST:PORT`; by default nowhere
    #[arg(long, value_name = "ADDRESS", value_parser = value(ListenAddress::read))]
    pub admin_address: Option<ListenAddress>,
    /// The command and its arguments, after `--`
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub command: Vec<OsString>,
}

/// The arguments of the process that becomes the command.
#[derive(Args, Clone, Debug)]
pub struct WrappedFlags {
    /// The process id of the wrapper
    #[arg(value_name = "PID")]
    pub parent: i32,
    /// The gate at which to wait for the start
    #[arg(value_name = "GATE")]
    pub gate: String,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub command: Vec<OsString>,
}

/// The arguments of the guardian.
#[derive(Args, Clone, Debug)]
pub struct GuardianFlags {
    /// The directory to remove when the wrapper is gone
    #[arg(value_name = "PATH")]
    pub folder: PathBuf,
}

impl RunFlags {
    /// The configuration; `None` after a mistake.
    pub fn read(self, log: ProcessLog, mistakes: &mut Mistakes) -> Option<Config> {
        let candidacy = self.candidacy.read(mistakes);
        let mut command = self.command.into_iter();
        let program = command.next().filter(|program| !program.is_empty());
        if program.is_none() {
            mistakes.add("COMMAND", "is empty: name a program after `--`");
        }
        let mut candidacy = candidacy?;
        let lost_grace = read_lost_grace(self.lost_grace, &candidacy.timing, mistakes)?;
        let longest_stop = self.stop_grace.saturating_add(KILL_ALLOWANCE);
        candidacy.timing = valid("", Durations { stop_grace: longest_stop, ..candidacy.timing.into() }, mistakes)?;
        Some(Config {
            candidacy,
            command: CommandConfig {
                program: program?,
                arguments: command.collect(),
                stop_signal: self.stop_signal,
                stop_grace: self.stop_grace,
                lost_grace,
            },
            stop_on: self.stop_on,
            restart: self.restart,
            exit_on_loss: self.exit_on_loss,
            admin_address: self.admin_address,
            log,
        })
    }
}

/// Returns `--lost-grace` or its default. The grace must end before another replica may lead.
fn read_lost_grace(given: Option<Duration>, timing: &Timing, mistakes: &mut Mistakes) -> Option<Duration> {
    let Some(longest) = longest_lost_grace(timing) else {
        let reason = "leaves no time to kill the command before the Lease expires: it must be shorter than the lease \
                      duration by at least 0.5 s and 1/500 of the lease duration";
        mistakes.add("--renew-deadline", format!("{:?} {reason}", timing.renew_deadline()));
        return None;
    };
    match given {
        None => default_lost_grace(timing),
        Some(grace) if grace <= longest => Some(grace),
        Some(grace) => {
            mistakes.add(
                "--lost-grace",
                format!(
                    "{grace:?} is longer than {longest:?}, the time that the renew deadline leaves to stop the command \
                     before another replica may lead: use {longest:?} or less"
                ),
            );
            None
        }
    }
}
