//! The flags of every command that stands for a Lease. `cli` checks the rules that concern several of them.

use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::{ArgAction, Args, ValueHint};
use hustings_client::Timing;
use hustings_client::api::names::LONGEST_NAME;
use hustings_core::model::{InvalidVersion, Strategy, Version};

use super::key_file::KeyFile;
use crate::base::duration;
use crate::base::parsers::{object_name, value, whole_seconds};

/// The configuration of a replica that stands for a Lease: the flags of its command.
#[derive(Args, Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Candidacy {
    /// The Lease to stand for
    #[arg(long, value_name = "NAME", value_parser = value(object_name))]
    pub lease: String,
    /// The identity under which to hold the Lease; by default the name of the pod (POD_NAME), otherwise of the host
    #[arg(long, value_name = "NAME", value_parser = value(holder_name))]
    pub identity: Option<String>,
    /// The version of the component, such as 1.31.4; required unless --direct is given
    #[arg(long, value_name = "VERSION", value_parser = value(version))]
    pub binary_version: Option<String>,
    /// The version that the component behaves as; by default the binary version
    #[arg(long, value_name = "VERSION", value_parser = value(version))]
    pub emulation_version: Option<String>,
    /// The strategy of the election, such as hustings.io/NewestEmulationVersion; by default OldestEmulationVersion
    #[arg(long, value_name = "NAME", value_parser = value(strategy))]
    pub strategy: Option<String>,
    /// The priority of a new candidate, 0 or more; the highest leads
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, value_parser = value(priority))]
    pub priority: Option<i32>,
    /// Stand without a controller: the first replica that finds the Lease free claims it
    #[arg(long)]
    pub direct: bool,
    /// With --direct, the preference of this replica, any integer; it asks a live holder with a lower one to hand over
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, value_parser = value(key))]
    pub key: Option<i64>,
    /// With --direct, a file that contains the preference of this replica as one whole number; a change takes effect
    /// within seconds
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath,
        value_parser = PathBufValueParser::new().map(KeyFile::new))]
    pub key_file: Option<KeyFile>,
    /// Elect together with the other candidates while no controller runs; no effect with --direct
    #[arg(long, value_name = "BOOL", default_value = "true", action = ArgAction::Set)]
    pub fallback: bool,
    /// Take part in an election; if false, this process leads from its start and sends no request, so it must be the
    /// only one
    #[arg(long, value_name = "BOOL", default_value = "true", action = ArgAction::Set)]
    pub leader_elect: bool,
    /// Let the Lease expire when this process stops, instead of releasing it, so that the end of a time range stays
    /// true
    #[arg(long)]
    pub keep_on_stop: bool,
    /// How long the Lease lasts without a renewal
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = value(whole_seconds))]
    pub lease_duration: u32,
    /// How long the holder tries to renew before it stops leading
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = value(duration::parse))]
    pub renew_deadline: Duration,
    /// How often the holder renews the Lease
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = value(duration::parse))]
    pub retry_period: Duration,
    /// The durations of a term that follow from these three
    #[arg(skip)]
    pub timing: Timing,
}

/// Parses an identity as it may appear in a Lease. It must be printable, since terminals and tables show it. The name
/// of a candidate has stricter rules.
fn holder_name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("is empty: use the name of the pod, for example".to_owned()),
        _ if text.chars().any(char::is_control) => {
            Err(format!("{text:?} contains a control character: use printable characters"))
        }
        _ if text.len() > LONGEST_NAME => {
            Err(format!("{text:?} is longer than {LONGEST_NAME} bytes: use a shorter name"))
        }
        _ => Ok(text.to_owned()),
    }
}

fn version(text: &str) -> Result<String, String> {
    let parsed: Result<Version, InvalidVersion> = text.parse();
    parsed.map(|_| text.to_owned()).map_err(|invalid| invalid.to_string())
}

fn strategy(text: &str) -> Result<String, String> {
    Strategy::check(text).map(|()| text.to_owned())
}

fn priority(text: &str) -> Result<i32, String> {
    text.parse()
        .ok()
        .filter(|priority| *priority >= 0)
        .ok_or_else(|| format!("{text:?} is not a whole number from 0 to {}", i32::MAX))
}

fn key(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a whole number: use one such as 10 or -3"))
}
