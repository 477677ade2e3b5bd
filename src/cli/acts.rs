//! The flags of the commands for acts of administrators.

use std::time::Duration;

use clap::{Args, Subcommand};
use hustings_core::assist::{AssistOptions, is_pod_prefix};
use hustings_core::model::{Transfer, WireTime};

use super::mistakes::Mistakes;
use crate::base::duration;
use crate::base::output::Output;
use crate::base::parsers::{namespace_name, object_name, output_format, value};
use crate::operate::acts::{Act, ActExpiry, Config, LeaseAct, Targets};

/// The longest reason, in characters. The text of events and statuses is limited.
const LONGEST_REASON: usize = 256;

/// The acts.
#[derive(Debug, Subcommand)]
pub enum ActTask {
    /// Pause the elections of a Lease; its holder keeps leading
    Pause(PauseFlags),
    /// End the pause of a Lease
    Resume(LeaseFlags),
    /// Move a Lease to another candidate, once
    Transfer(TransferFlags),
    /// Keep a Lease with one candidate while it lives, until a given time
    Pin(PinFlags),
    /// End the pin of a Lease
    Unpin(LeaseFlags),
    /// Keep candidates from leading until a given time
    Exclude(ExcludeFlags),
    /// End the exclusion of candidates
    Include(TargetFlags),
    /// Release a Lease as soon as its holder, which knows nothing of Hustings, is proven dead
    Assist(AssistFlags),
    /// End the assistance of a Lease
    Unassist(LeaseFlags),
}

/// The flags of every act.
#[derive(Args, Clone, Debug)]
pub struct ActFlags {
    /// Why, in a few words, for events and `hustings status`
    #[arg(long, value_name = "TEXT", value_parser = value(reason))]
    pub reason: Option<String>,
    /// Write nothing, and print what the controller would do now
    #[arg(long)]
    pub dry_run: bool,
    /// Wait until the act has taken effect, and print the result; exit code 4 if it does not
    #[arg(long)]
    pub wait: bool,
    /// How long --wait waits
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = value(duration::parse))]
    pub timeout: Duration,
    /// The output format: text or json, which is one object per line
    #[arg(long, short, value_name = "FORM", default_value = "text",
        value_parser = output_format(&Output::NAMES))]
    pub output: Output,
}

/// When an act ends.
#[derive(Args, Clone, Debug)]
pub struct EndFlags {
    /// How long the act lasts, such as 30m
    #[arg(long = "for", value_name = "DURATION", value_parser = value(duration::parse))]
    pub duration: Option<Duration>,
    /// When the act ends, in RFC 3339, such as 2026-12-31T23:59:59Z
    #[arg(long, value_name = "TIME", value_parser = value(time))]
    pub until: Option<WireTime>,
}

/// The flags of an act on a Lease.
#[derive(Args, Clone, Debug)]
pub struct LeaseFlags {
    /// The Lease: its name, or NAMESPACE/NAME as in alerts and logs
    #[arg(value_name = "LEASE", value_parser = value(lease_path))]
    pub lease: LeasePath,
    /// How to act.
    #[command(flatten)]
    pub act: ActFlags,
}

/// The flags of `hustings pause`.
#[derive(Args, Clone, Debug)]
pub struct PauseFlags {
    /// The Lease.
    #[command(flatten)]
    pub lease: LeaseFlags,
    /// When the pause ends.
    #[command(flatten)]
    pub end: EndFlags,
}

/// The flags of `hustings transfer`.
#[derive(Args, Clone, Debug)]
pub struct TransferFlags {
    /// The Lease.
    #[command(flatten)]
    pub lease: LeaseFlags,
    /// The candidate to move the Lease to; without it, the best of the others
    #[arg(long, value_name = "CANDIDATE", value_parser = value(object_name))]
    pub to: Option<String>,
}

/// The flags of `hustings pin`.
#[derive(Args, Clone, Debug)]
pub struct PinFlags {
    /// The Lease.
    #[command(flatten)]
    pub lease: LeaseFlags,
    /// The candidate to rank first
    #[arg(long, value_name = "CANDIDATE", value_parser = value(object_name))]
    pub to: String,
    /// When the pin ends.
    #[command(flatten)]
    pub end: EndFlags,
}

/// A Lease on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasePath {
    /// Its namespace, if it is named.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// The flags of `hustings assist`.
#[derive(Args, Clone, Debug)]
pub struct AssistFlags {
    /// The Lease.
    #[command(flatten)]
    pub lease: LeaseFlags,
    /// The container that holds the Lease; needed if the holder's Pod has several
    #[arg(long, value_name = "NAME", value_parser = value(namespace_name))]
    pub container: Option<String>,
    /// The namespace of the holder's Pod; without it, that of the Lease
    #[arg(long, value_name = "NAME", value_parser = value(namespace_name))]
    pub pod_namespace: Option<String>,
    /// The name of the holder's Pod before `-` and the node's name, if the holder runs in static pods
    #[arg(long, value_name = "PREFIX", value_parser = value(pod_prefix))]
    pub pod_prefix: Option<String>,
}

/// Which candidates an act concerns.
#[derive(Args, Clone, Debug)]
pub struct TargetFlags {
    /// The candidates
    #[arg(value_name = "CANDIDATE", value_parser = value(object_name))]
    pub candidates: Vec<String>,
    /// All candidates whose Pods run on this node, for a drain
    #[arg(long, value_name = "NODE", value_parser = value(object_name))]
    pub node: Option<String>,
    /// Look for the Pods of the node in all namespaces
    #[arg(long, short = 'A')]
    pub all_namespaces: bool,
    /// How to act.
    #[command(flatten)]
    pub act: ActFlags,
}

/// The flags of `hustings exclude`.
#[derive(Args, Clone, Debug)]
pub struct ExcludeFlags {
    /// Which candidates.
    #[command(flatten)]
    pub targets: TargetFlags,
    /// When the exclusion ends.
    #[command(flatten)]
    pub end: EndFlags,
}

impl ActTask {
    /// The Lease, unless the act is on candidates.
    pub(super) fn lease(&self) -> Option<&LeasePath> {
        let flags = match self {
            Self::Resume(flags) | Self::Unpin(flags) | Self::Unassist(flags) => flags,
            Self::Pause(flags) => &flags.lease,
            Self::Transfer(flags) => &flags.lease,
            Self::Pin(flags) => &flags.lease,
            Self::Assist(flags) => &flags.lease,
            Self::Exclude(_) | Self::Include(_) => return None,
        };
        Some(&flags.lease)
    }

    /// The configuration.
    pub fn read(self, mistakes: &mut Mistakes) -> Option<Config> {
        match self {
            Self::Pause(flags) => Some(flags.read(mistakes)),
            Self::Resume(flags) => Some(flags.read(LeaseAct::Resume)),
            Self::Transfer(flags) => Some(flags.read()),
            Self::Pin(flags) => flags.read(mistakes),
            Self::Unpin(flags) => Some(flags.read(LeaseAct::Unpin)),
            Self::Exclude(flags) => Some(flags.read(mistakes)),
            Self::Include(flags) => Some(flags.read(None, mistakes)),
            Self::Assist(flags) => Some(flags.read()),
            Self::Unassist(flags) => Some(flags.read(LeaseAct::Unassist)),
        }
    }
}

impl ActFlags {
    fn read(self, act: Act) -> Config {
        let Self { reason, dry_run, wait, timeout, output } = self;
        Config { act, reason, dry_run, wait: wait.then_some(timeout), output }
    }
}

impl EndFlags {
    fn read(&self, mistakes: &mut Mistakes) -> Option<ActExpiry> {
        if self.duration.is_some() && self.until.is_some() {
            mistakes.add("--for", "excludes --until: use one of the two");
        }
        self.duration.map(ActExpiry::After).or(self.until.map(ActExpiry::At))
    }

    fn required(&self, mistakes: &mut Mistakes) -> Option<ActExpiry> {
        let end = self.read(mistakes);
        if end.is_none() {
            mistakes.add("--for", "every act has an end: use a duration such as 30m, or --until");
        }
        end
    }
}

impl LeaseFlags {
    fn read(self, act: LeaseAct) -> Config {
        self.act.read(Act::Lease { lease: self.lease.name, act })
    }
}

impl AssistFlags {
    fn read(self) -> Config {
        let Self { lease, container, pod_namespace, pod_prefix } = self;
        lease.read(LeaseAct::Assist(AssistOptions { container, pod_namespace, pod_prefix }))
    }
}

impl PauseFlags {
    fn read(self, mistakes: &mut Mistakes) -> Config {
        let end = self.end.read(mistakes);
        self.lease.read(LeaseAct::Pause(end))
    }
}

impl TransferFlags {
    fn read(self) -> Config {
        let to = self.to.map_or(Transfer::Any, Transfer::To);
        self.lease.read(LeaseAct::Transfer(to))
    }
}

impl PinFlags {
    fn read(self, mistakes: &mut Mistakes) -> Option<Config> {
        let end = self.end.required(mistakes)?;
        Some(self.lease.read(LeaseAct::Pin { candidate: self.to, end }))
    }
}

impl TargetFlags {
    /// An exclusion until `end`; without an end, the end of the exclusion.
    fn read(self, end: Option<ActExpiry>, mistakes: &mut Mistakes) -> Config {
        let Self { candidates: names, node, all_namespaces, act } = self;
        if names.is_empty() == node.is_none() {
            mistakes.add("CANDIDATE", "name candidates, or all of a node by --node, but not both");
        }
        if all_namespaces && node.is_none() {
            mistakes.add("--all-namespaces", "applies to --node only");
        }
        act.read(Act::Candidates { targets: Targets { names, node, all_namespaces }, end })
    }
}

impl ExcludeFlags {
    fn read(self, mistakes: &mut Mistakes) -> Config {
        let end = self.end.required(mistakes);
        self.targets.read(end, mistakes)
    }
}

/// Parses `NAME` or `NAMESPACE/NAME`.
pub(super) fn lease_path(text: &str) -> Result<LeasePath, String> {
    match text.split_once('/') {
        Some((namespace, name)) => {
            Ok(LeasePath { namespace: Some(namespace_name(namespace)?), name: object_name(name)? })
        }
        None => Ok(LeasePath { namespace: None, name: object_name(text)? }),
    }
}

fn pod_prefix(text: &str) -> Result<String, String> {
    if is_pod_prefix(text) { Ok(text.to_owned()) } else { object_name(text) }
}

fn reason(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().count() > LONGEST_REASON || text.chars().any(char::is_control) {
        return Err(format!("{text:?} is not a reason: use one line of 1 to {LONGEST_REASON} characters"));
    }
    Ok(text.to_owned())
}

fn time(text: &str) -> Result<WireTime, String> {
    let time: jiff::Timestamp = text
        .parse()
        .map_err(|_| format!("{text:?} is not a time with a time zone: use a form such as 2026-12-31T23:59:59Z"))?;
    Ok(WireTime::from_micros(time.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_keeps_its_fraction_and_needs_a_zone() {
        assert_eq!(time("1970-01-01T01:00:01.25+01:00"), Ok(WireTime::from_micros(1_250_000)));
        assert!(time("1970-01-01T01:00:01").is_err());
    }

    #[test]
    fn a_reason_is_one_short_line() {
        let longest = "ä".repeat(LONGEST_REASON);
        for (text, is_accepted) in [
            ("works", true),
            (&*longest, true),
            (&*format!("{longest}x"), false),
            ("", false),
            ("one\ntwo", false),
            ("red\u{1b}[31m", false),
        ] {
            assert_eq!(reason(text).is_ok(), is_accepted, "{text:?}");
        }
    }
}
