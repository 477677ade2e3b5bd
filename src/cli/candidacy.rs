//! The flags of every command that stands for a Lease.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use hustings_core::model::{InvalidVersion, Strategy, Version};

use super::Mistakes;
use super::timing::timing;
use crate::base::duration;
use crate::base::parsers::{object_name, value, whole_seconds};
use crate::stand::candidacy::{Candidacy, KeyFile, PreferenceSource};

/// The longest name of an object, in bytes.
const LONGEST_NAME: usize = 253;

/// The flags of a candidacy.
#[derive(Args, Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct CandidacyFlags {
    /// The Lease to stand for
    #[arg(long, value_name = "NAME", value_parser = value(object_name))]
    pub lease: String,
    /// The identity under which to hold the Lease; by default the name of the pod (POD_NAME), otherwise of the host
    #[arg(long, value_name = "NAME", value_parser = value(holder_name))]
    pub identity: Option<String>,
    /// The version of the component, such as 1.31.4; required unless --direct is given
    #[arg(long, value_name = "VERSION", value_parser = value(VersionText::read))]
    pub binary_version: Option<VersionText>,
    /// The version that the component behaves as; by default the binary version
    #[arg(long, value_name = "VERSION", value_parser = value(VersionText::read))]
    pub emulation_version: Option<VersionText>,
    /// The strategy of the election: OldestEmulationVersion, hustings.io/NewestEmulationVersion, or domain/Name of a
    /// third party's strategy
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
    #[arg(long, value_name = "PATH")]
    pub key_file: Option<PathBuf>,
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
}

/// A version: the text that the user wrote, which the candidate contains, and the parsed version for comparisons.
#[derive(Clone, Debug)]
pub struct VersionText {
    text: String,
    version: Version,
}

impl CandidacyFlags {
    /// The configuration; `None` after a mistake.
    pub fn read(self, mistakes: &mut Mistakes) -> Option<Candidacy> {
        if self.direct {
            self.check_direct(mistakes);
        } else {
            self.check_candidate(mistakes);
        }
        if self.key.is_some() && self.key_file.is_some() {
            mistakes.add("--key-file", "cannot be used with --key: remove one of the two flags");
        }
        let timing = timing("", self.lease_duration, self.renew_deadline, self.retry_period, mistakes);
        Some(Candidacy {
            lease: self.lease,
            identity: self.identity,
            binary_version: self.binary_version.map(|version| version.text),
            emulation_version: self.emulation_version.map(|version| version.text),
            strategy: self.strategy,
            priority: self.priority,
            direct: self.direct,
            key: match (self.key, self.key_file) {
                (Some(key), _) => PreferenceSource::Number(key),
                (None, Some(path)) => PreferenceSource::File(KeyFile::new(path)),
                (None, None) => PreferenceSource::None,
            },
            fallback: self.fallback,
            leader_elect: self.leader_elect,
            keep_on_stop: self.keep_on_stop,
            timing: timing?,
        })
    }

    /// Rejects the flags that describe a candidate, since a replica with `--direct` has none.
    fn check_direct(&self, mistakes: &mut Mistakes) {
        for (flag, is_given) in self.candidate_flags() {
            if is_given {
                mistakes.add(flag, "describes a candidate, and --direct has none: remove one of the two flags");
            }
        }
    }

    /// Rejects a candidate that every controller would reject.
    fn check_candidate(&self, mistakes: &mut Mistakes) {
        if let Some(Err(reason)) = self.identity.as_deref().map(object_name) {
            mistakes.add("--identity", reason);
        }
        for (flag, is_given) in [("--key", self.key.is_some()), ("--key-file", self.key_file.is_some())] {
            if is_given {
                mistakes.add(flag, "applies only with --direct: use --priority instead");
            }
        }
        let is_described = self.candidate_flags().iter().any(|(_, is_given)| *is_given);
        if self.binary_version.is_none() && (self.leader_elect || is_described) {
            mistakes.add("--binary-version", "is required unless --direct is given");
        }
        if let (Some(binary), Some(emulation)) = (&self.binary_version, &self.emulation_version)
            && emulation.version > binary.version
        {
            let (emulation, binary) = (&emulation.version, &binary.version);
            let note = binary.note_on_pre_release(emulation);
            let remedy = note.unwrap_or_else(|| format!("use {binary} or lower"));
            mistakes.add(
                "--emulation-version",
                format!("{emulation} is higher than the binary version {binary}: {remedy}"),
            );
        }
    }

    /// The flags that describe a candidate, and whether each is given.
    const fn candidate_flags(&self) -> [(&'static str, bool); 4] {
        [
            ("--binary-version", self.binary_version.is_some()),
            ("--emulation-version", self.emulation_version.is_some()),
            ("--strategy", self.strategy.is_some()),
            ("--priority", self.priority.is_some()),
        ]
    }
}

impl VersionText {
    fn read(text: &str) -> Result<Self, String> {
        let version = text.parse().map_err(|invalid: InvalidVersion| invalid.to_string())?;
        Ok(Self { text: text.to_owned(), version })
    }
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

fn strategy(text: &str) -> Result<String, String> {
    match Strategy::read(Some(text)) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(format!("{text:?} is not a strategy: use OldestEmulationVersion or domain/Name")),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Task;
    use crate::cli::testing::configuration;

    fn read(flags: &[&str]) -> Result<Candidacy, String> {
        configuration(["hustings", "campaign", "--lease=l"].iter().chain(flags).copied(), |cli, mistakes| {
            let Task::Campaign(flags) = cli.task else { panic!("{flags:?}") };
            flags.candidacy.read(mistakes)
        })
    }

    #[test]
    fn each_flag_reaches_the_candidacy() {
        let plain = read(&["--binary-version=1.2"]).unwrap();
        assert!(plain.leader_elect && plain.fallback && !plain.direct && !plain.keep_on_stop, "{plain:?}");
        assert_eq!((plain.timing, plain.priority), (hustings_client::Timing::default(), None));
        assert!(matches!(plain.key, PreferenceSource::None));
        let all = read(&[
            "--identity=a",
            "--binary-version=v1.2.3",
            "--emulation-version=1.1",
            "--strategy=example.com/Mine",
            "--priority=0",
            "--fallback=false",
            "--keep-on-stop",
            "--lease-duration=30s",
            "--renew-deadline=20s",
            "--retry-period=3s",
        ])
        .unwrap();
        let texts = [&all.identity, &all.binary_version, &all.emulation_version, &all.strategy];
        let expected = ["a", "v1.2.3", "1.1", "example.com/Mine"].map(|text| Some(text.to_owned()));
        assert_eq!(texts, expected.each_ref());
        assert_eq!((all.priority, all.fallback, all.keep_on_stop), (Some(0), false, true));
        let durations = [all.timing.lease_duration(), all.timing.renew_deadline(), all.timing.retry_period()];
        assert_eq!(durations, [30, 20, 3].map(Duration::from_secs));
        assert!(matches!(read(&["--direct", "--key", "-3"]).unwrap().key, PreferenceSource::Number(-3)));
        assert!(matches!(read(&["--direct", "--key-file=/key"]).unwrap().key, PreferenceSource::File(_)));
    }

    #[test]
    fn limits_of_values_are_accepted_and_what_is_beyond_them_is_not() {
        let longest = |length: usize| format!("--identity={}", "A".repeat(length));
        for (flags, is_accepted) in [
            (&["--direct", &*longest(253)][..], true),
            (&["--direct", &*longest(254)], false),
            (&["--direct", "--identity="], false),
            (&["--direct", "--identity=Any_Name"], true),
            (&["--binary-version=1.2", "--identity=Any_Name"], false),
            (&["--binary-version=1.2", "--emulation-version=1.2"], true),
            (&["--binary-version=1.2", "--emulation-version=1.2.1"], false),
            (&["--binary-version=1.2", "--priority=2147483647"], true),
            (&["--binary-version=1.2", "--priority=2147483648"], false),
            (&["--direct", "--key=9223372036854775807"], true),
            (&["--direct", "--key=1", "--key-file=/key"], false),
            (&["--binary-version=1.2", "--key-file=/key"], false),
            (&["--leader-elect=false"], true),
            (&["--leader-elect=false", "--priority=1"], false),
            (&[], false),
        ] {
            assert_eq!(read(flags).is_ok(), is_accepted, "{flags:?}");
        }
        for flag in ["--binary-version=1.2", "--emulation-version=1.2", "--strategy=example.com/Mine", "--priority=1"] {
            let error = read(&["--direct", flag]).expect_err(flag);
            assert!(error.contains(&format!("{}: describes a candidate", flag.split('=').next().unwrap())), "{error}");
        }
    }
}
