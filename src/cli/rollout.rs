//! The flags of `hustings rollout`.

use std::time::Duration;

use clap::Args;
use hustings_core::elector::LONGEST_LEASE_SECONDS;
use hustings_core::model::Version;

use super::acts::{LeasePath, lease_path};
use super::mistakes::Mistakes;
use crate::base::output::Output;
use crate::base::parsers::{at_most, one_of, output_format, value, whole_seconds};
use crate::operate::rollout::{Config, Order};
use crate::predict::simulation::MOST_REPLICAS;

/// The longest time to start or to stop.
const LONGEST_PHASE: Duration = Duration::from_hours(1);

/// The flags of `hustings rollout`.
#[derive(Args, Clone, Debug)]
pub struct RolloutFlags {
    /// The Lease whose replicas, versions, timing and acts to simulate; without LEASE, the command needs no cluster
    #[arg(value_name = "LEASE", value_parser = value(lease_path))]
    pub lease: Option<LeasePath>,
    /// The version before the upgrade; with LEASE, by default those of its candidates
    #[arg(long, value_name = "VERSION", value_parser = value(version))]
    pub from: Option<String>,
    /// The version after the upgrade
    #[arg(long, value_name = "VERSION", value_parser = value(version))]
    pub to: Option<String>,
    /// The version that the new replicas emulate; by default their own
    #[arg(long, value_name = "VERSION", value_parser = value(version))]
    pub emulate: Option<String>,
    /// The number of replicas; by default those of LEASE, or 3
    #[arg(long, value_name = "NUMBER", value_parser = value(replicas))]
    pub replicas: Option<usize>,
    /// How many more replicas may run, as in a Deployment
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = value(count))]
    pub max_surge: usize,
    /// How many fewer replicas may be available, as in a Deployment
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = value(count))]
    pub max_unavailable: usize,
    /// Which old replica stops next: youngest-first, leader-first or leader-last
    #[arg(long, value_name = "ORDER", default_value = "youngest-first", value_parser = one_of("an order", &ORDERS))]
    pub order: Order,
    /// How long a new replica takes until it stands and is ready
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = value(phase))]
    pub readiness: Duration,
    /// How long the work of a replica takes to stop
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = value(phase))]
    pub shutdown: Duration,
    /// The lease duration; by default that of LEASE, or 15s
    #[arg(long, value_name = "DURATION", value_parser = value(lease_duration))]
    pub lease_duration: Option<u32>,
    /// Simulate direct mode: an election without candidates and without a controller
    #[arg(long)]
    pub direct: bool,
    /// The output format: text or json
    #[arg(long, short, value_name = "FORM", default_value = "text",
        value_parser = output_format(&Output::NAMES))]
    pub output: Output,
}

const ORDERS: [(&str, Order); 3] = [
    ("youngest-first", Order::YoungestFirst),
    ("leader-first", Order::LeaderFirst),
    ("leader-last", Order::LeaderLast),
];

impl RolloutFlags {
    /// The configuration.
    pub fn read(self, mistakes: &mut Mistakes) -> Option<Config> {
        if self.to.is_none() {
            mistakes.add("--to", "is missing: use the version after the upgrade, such as 1.36");
        }
        if self.lease.is_none() && self.from.is_none() {
            mistakes.add("--from", "is missing: use the version before the upgrade, or name a Lease");
        }
        if self.lease.is_some() && self.direct {
            mistakes.add("--direct", "applies to a simulation without LEASE only: a Lease shows how its group elects");
        }
        if self.max_surge == 0 && self.max_unavailable == 0 {
            mistakes.add("--max-surge", "must not be 0 together with --max-unavailable: the upgrade could not begin");
        }
        let parsed = |text: Option<&str>| text.and_then(|text| text.parse::<Version>().ok());
        if let (Some(emulated), Some(newest)) = (parsed(self.emulate.as_deref()), parsed(self.to.as_deref()))
            && emulated > newest
        {
            let note = newest.note_on_pre_release(&emulated);
            let why = note.unwrap_or_else(|| "no program emulates a later version".to_owned());
            mistakes.add("--emulate", format!("{emulated} is above --to: {why}"));
        }
        Some(Config {
            lease: self.lease.map(|lease| lease.name),
            from: self.from,
            to: self.to?,
            emulates: self.emulate,
            replicas: self.replicas,
            direct: self.direct,
            surge: self.max_surge,
            unavailable: self.max_unavailable,
            order: self.order,
            readiness: self.readiness,
            shutdown: self.shutdown,
            lease_seconds: self.lease_duration,
            output: self.output,
        })
    }
}

fn version(text: &str) -> Result<String, String> {
    let version: Result<Version, _> = text.parse();
    version.map(|_| text.to_owned()).map_err(|invalid| invalid.to_string())
}

fn replicas(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST_REPLICAS).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number of replicas: use 1 to {MOST_REPLICAS}"))
}

fn count(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number <= MOST_REPLICAS);
    number.ok_or_else(|| format!("{text:?} is not a number of replicas: use 0 to {MOST_REPLICAS}"))
}

fn phase(text: &str) -> Result<Duration, String> {
    at_most(text, LONGEST_PHASE)
}

fn lease_duration(text: &str) -> Result<u32, String> {
    match whole_seconds(text)? {
        seconds if (1..=LONGEST_LEASE_SECONDS).contains(&seconds) => Ok(seconds),
        _ => Err(format!("{text:?} is not a lease duration: use 1s to {LONGEST_LEASE_SECONDS}s")),
    }
}
