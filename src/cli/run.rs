//! The flags of `hustings run`, and of the two processes that it starts from its own binary.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hustings_core::elector::Timing;

use super::values::duration;
use super::{CandidacyFlags, GlobalFlags, Values};
use crate::ops::http::ListenAddress;
use crate::run::Config;
use crate::run::bounds::{KILL_ALLOWANCE, default_lost_grace, longest_lost_grace};
use crate::run::restart::Restart;
use crate::run::signals::stop_signal;

/// What `--help` says after the flags.
const EXIT_CODES: &str = "\
Exit codes:
  the command's own, or 128 plus the number of the signal that ended it
  0    a signal stopped the wrapper while no command ran
  1    the wrapper could not start (a port in use, no kubeconfig), or it failed otherwise
  2    the command line is invalid
  79   the Lease was lost, with --exit-on-loss
  126  the command is not executable
  127  the command was not found";

/// The flags of `hustings run`, unparsed.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct RunFlags {
    /// The flags of the candidacy.
    #[command(flatten)]
    pub candidacy: CandidacyFlags,
    /// The signal that stops the command: TERM, INT, QUIT, HUP, USR1, USR2, WINCH or KILL
    #[arg(long, value_name = "SIGNAL", default_value = "TERM")]
    pub stop_signal: String,
    /// How long the command may take to stop before the wrapper kills it; the wrapper renews the Lease meanwhile
    #[arg(long, value_name = "DURATION", default_value = "25s")]
    pub stop_grace: String,
    /// How long the command may take to stop when the Lease is lost; without it, half the time between renew deadline
    /// and lease duration
    #[arg(long, value_name = "DURATION")]
    pub lost_grace: Option<String>,
    /// When to stand again after the command has ended by itself: never, on-failure or always
    #[arg(long, value_name = "WHEN", default_value = "never")]
    pub restart: String,
    /// Exit when the Lease is lost, instead of standing again
    #[arg(long)]
    pub exit_on_loss: bool,
    /// Where to serve health, metrics, /isleader and /range: `:PORT` or `HOST:PORT`; without it, nothing is served
    #[arg(long, value_name = "ADDRESS")]
    pub admin_address: Option<String>,
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
    /// Parses the flags. Returns `None` if a value is invalid; `values` then has the reason.
    pub fn read(&self, global: &GlobalFlags, values: &mut Values) -> Option<Config> {
        let candidacy = self.candidacy.read(global, values);
        let stop_signal = values.take("stop-signal", &self.stop_signal, stop_signal);
        let stop_grace = values.take("stop-grace", &self.stop_grace, duration);
        let timing = candidacy.as_ref().map(|candidacy| candidacy.timing);
        let lost_grace = timing.and_then(|timing| self.lost_grace(&timing, values));
        let restart = values.take("restart", &self.restart, Restart::read);
        let admin_address = match &self.admin_address {
            Some(text) => values.take("admin-address", text, ListenAddress::read).map(Some),
            None => Some(None),
        };
        if self.command.first().is_none_or(|program| program.is_empty()) {
            values.refuse_operand("COMMAND", "is empty");
        }
        let (mut candidacy, stop_grace) = (candidacy?, stop_grace?);
        candidacy.timing.stop_grace = stop_grace.saturating_add(KILL_ALLOWANCE);
        Some(Config {
            candidacy,
            command: self.command.clone(),
            stop_signal: stop_signal?,
            stop_grace,
            lost_grace: lost_grace?,
            restart: restart?,
            exit_on_loss: self.exit_on_loss,
            admin_address: admin_address?,
        })
    }

    /// Parses `--lost-grace`. The command must be dead before another replica may lead.
    fn lost_grace(&self, timing: &Timing, values: &mut Values) -> Option<Duration> {
        let Some(longest) = longest_lost_grace(timing) else {
            let reason = "leaves no time to kill the command before the Lease expires: it must be shorter than the \
                          lease duration by at least 0.5 s and 1/500 of the lease duration";
            values.refuse("renew-deadline", reason);
            return None;
        };
        let Some(text) = &self.lost_grace else { return default_lost_grace(timing) };
        values.take("lost-grace", text, |text| match duration(text)? {
            grace if grace <= longest => Ok(grace),
            _ => Err(format!(
                "{text:?} is longer than {longest:?}, the time that the renew deadline leaves to stop the command \
                 before another replica may lead"
            )),
        })
    }
}
