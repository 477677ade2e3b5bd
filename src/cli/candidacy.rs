//! The flags of every command that stands for a Lease.

use clap::Args;

use hustings_core::model::{Strategy, Version};

use super::timing::TimingFlags;
use super::values::{namespace_name, object_name, switch};
use super::{GlobalFlags, Values};
use crate::candidacy::Candidacy;

/// The longest name of an object, in bytes.
const LONGEST_NAME: usize = 253;

/// The flags of a candidacy, unparsed.
#[derive(Args, Clone, Debug)]
pub struct CandidacyFlags {
    /// The Lease to stand for
    #[arg(long, value_name = "NAME")]
    pub lease: String,
    /// The identity under which to hold the Lease; without it, the name of the pod (POD_NAME), or else of the host
    #[arg(long, value_name = "NAME")]
    pub identity: Option<String>,
    /// The version of the component, such as 1.31.4; required unless --direct is given
    #[arg(long, value_name = "VERSION")]
    pub binary_version: Option<String>,
    /// The version whose behaviour the component shows; without it, the binary version
    #[arg(long, value_name = "VERSION")]
    pub emulation_version: Option<String>,
    /// The strategy of the election: OldestEmulationVersion, or domain/Name of a third party's strategy
    #[arg(long, value_name = "NAME")]
    pub strategy: Option<String>,
    /// The priority with which the candidate is created, 0 or more; the highest leads
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub priority: Option<String>,
    /// Stand without a controller: the first replica that finds the Lease free claims it
    #[arg(long)]
    pub direct: bool,
    /// With --direct, the preference of this replica, any whole number; a live holder with a lower one is asked to hand over
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub key: Option<String>,
    /// Let the candidates elect among themselves while no controller runs; --direct needs neither
    #[arg(long, value_name = "BOOL", default_value = "true", num_args = 0..=1, default_missing_value = "true")]
    pub fallback: String,
    /// Take part in an election; if false, this process leads from its start and sends no request, so it must be the only one
    #[arg(long, value_name = "BOOL", default_value = "true", num_args = 0..=1, default_missing_value = "true")]
    pub leader_elect: String,
    /// Let the Lease expire when this process stops, instead of releasing it, so that the end of a time range stays true
    #[arg(long)]
    pub keep_on_stop: bool,
    /// How long the Lease lasts without a renewal
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub lease_duration: String,
    /// How long the holder tries to renew before it stops leading
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub renew_deadline: String,
    /// How often the holder renews the Lease
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub retry_period: String,
}

impl CandidacyFlags {
    /// Parses the flags. Returns `None` if a value is invalid; `values` then has the reason.
    pub fn read(&self, global: &GlobalFlags, values: &mut Values) -> Option<Candidacy> {
        if let Some(namespace) = &global.namespace {
            values.take("namespace", namespace, namespace_name);
        }
        let lease = values.take("lease", &self.lease, object_name);
        let identity = match &self.identity {
            // In direct mode no candidate has this name, so almost any text is valid.
            Some(text) if self.direct => values.take("identity", text, holder_name).map(Some),
            Some(text) => values.take("identity", text, object_name).map(Some),
            None => Some(None),
        };
        let leader_elect = values.take("leader-elect", &self.leader_elect, switch);
        self.check_versions(leader_elect != Some(false), values);
        let priority = match &self.priority {
            Some(text) => values
                .take("priority", text, |text| match text.parse::<i32>() {
                    Ok(priority) if priority >= 0 => Ok(priority),
                    _ => Err(format!("{text:?} is not a whole number from 0 to {}", i32::MAX)),
                })
                .map(Some),
            None => Some(None),
        };
        let key = match &self.key {
            Some(_) if !self.direct => {
                values.refuse("key", "applies only with --direct: use --priority instead");
                None
            }
            Some(text) => values
                .take("key", text, |text| text.parse().map_err(|_| format!("{text:?} is not a whole number")))
                .map(Some),
            None => Some(None),
        };
        let fallback = values.take("fallback", &self.fallback, switch);
        let timing = TimingFlags {
            prefix: "",
            lease_duration: &self.lease_duration,
            renew_deadline: &self.renew_deadline,
            retry_period: &self.retry_period,
        };
        let timing = timing.read(values);
        Some(Candidacy {
            lease: lease?,
            identity: identity?,
            binary_version: trimmed(self.binary_version.as_ref()),
            emulation_version: trimmed(self.emulation_version.as_ref()),
            strategy: trimmed(self.strategy.as_ref()),
            priority: priority?,
            direct: self.direct,
            key: key?,
            fallback: fallback?,
            leader_elect: leader_elect?,
            keep_on_stop: self.keep_on_stop,
            timing: timing?,
        })
    }

    /// Rejects what every controller would reject in the candidate.
    fn check_versions(&self, is_elected: bool, values: &mut Values) {
        let given = [
            ("binary-version", self.binary_version.is_some()),
            ("emulation-version", self.emulation_version.is_some()),
            ("strategy", self.strategy.is_some()),
            ("priority", self.priority.is_some()),
        ];
        let given = || given.iter().filter(|(_, given)| *given);
        if self.direct {
            for (flag, _) in given() {
                values.refuse(flag, "describes a candidate, and --direct has none: remove one of the two flags");
            }
            return;
        }
        let mut version = |flag, text: Option<&String>| text.and_then(|text| values.take(flag, text, version));
        let binary = version("binary-version", self.binary_version.as_ref());
        let emulation = version("emulation-version", self.emulation_version.as_ref());
        if self.binary_version.is_none() && (is_elected || given().next().is_some()) {
            values.refuse("binary-version", "is required unless --direct is given");
        }
        if let (Some(binary), Some(emulation)) = (binary, emulation)
            && emulation > binary
        {
            values.refuse("emulation-version", &format!("{emulation} is higher than the binary version {binary}"));
        }
        if let Some(strategy) = &self.strategy {
            values.take("strategy", strategy, |text| {
                Strategy::read(Some(text))
                    .map_err(|_| format!("{text:?} is not a strategy: use OldestEmulationVersion or domain/Name"))
            });
        }
    }
}

/// Parses an identity that appears only in Leases. Terminals and tables show it, so it must be printable.
fn holder_name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("is empty".to_owned()),
        _ if text.chars().any(char::is_control) => Err(format!("{text:?} contains a control character")),
        _ if text.len() > LONGEST_NAME => Err(format!("is longer than {LONGEST_NAME} bytes")),
        _ => Ok(text.to_owned()),
    }
}

fn trimmed(text: Option<&String>) -> Option<String> {
    text.map(|text| text.trim().to_owned())
}

fn version(text: &str) -> Result<Version, String> {
    text.parse().map_err(|_| format!("{text:?} is not a version: use a form such as 1.31.4"))
}
