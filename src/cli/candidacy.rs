//! The rules that concern several flags of a candidacy.

use hustings_core::model::Version;

use super::Mistakes;
use super::timing::timing;
use crate::base::parsers::object_name;
use crate::stand::candidacy::Candidacy;

impl Candidacy {
    /// The configuration with its timing; `None` after a mistake.
    pub(super) fn read(self, mistakes: &mut Mistakes) -> Option<Self> {
        if self.direct {
            self.check_direct(mistakes);
        } else {
            self.check_candidate(mistakes);
        }
        if self.key.is_some() && self.key_file.is_some() {
            mistakes.add("--key-file", "cannot be used with --key: remove one of the two flags");
        }
        let timing = timing("", self.lease_duration, self.renew_deadline, self.retry_period, mistakes)?;
        Some(Self { timing, ..self })
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
        let version = |text: &Option<String>| text.as_ref()?.parse::<Version>().ok();
        if let (Some(binary), Some(emulation)) = (version(&self.binary_version), version(&self.emulation_version))
            && emulation > binary
        {
            let note = binary.note_on_pre_release(&emulation);
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
    }
}
