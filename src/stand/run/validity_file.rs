//! The file that shows a command when its term ends without another renewal. A program in any language can read it.
//!
//! It has one line with the same time by two clocks, in seconds with six decimals. The first is by the clock of
//! `/proc/uptime`, which counts suspension and which no process can set. The second is by the wall clock, for people.
//! Each renewal replaces the file atomically.
//!
//! The file is in memory. On a busy disk, the replacement of a file waits until its former content is written. This has
//! been observed to take longer than a renew deadline.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use hustings_client::Moment;
use hustings_client::clock::Clock;
use tempfile::TempDir;

use crate::base::hint::Hinted;

/// The environment variable that names the file. No two wrappers give it the same value.
pub(super) const VALID_UNTIL_FILE: &str = "LEADER_VALID_UNTIL_FILE";

/// The directory in memory that Linux provides.
const MEMORY: &str = "/dev/shm";

/// The file, in a directory that only this user can read. Dropping the value removes the directory.
pub(super) struct ValidityFile {
    folder: TempDir,
}

impl ValidityFile {
    /// Creates the directory, without the file: in `TMPDIR` if that is set, else in memory, else in `/tmp`.
    ///
    /// # Errors
    /// Fails if no directory can be created there.
    pub(super) fn create() -> anyhow::Result<Self> {
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("hustings-");
        let folder = match std::env::var_os("TMPDIR") {
            Some(_) => builder.tempdir(),
            None => builder.tempdir_in(MEMORY).or_else(|_| builder.tempdir()),
        };
        let folder = folder.context(Hinted::new(
            format!("cannot create a directory in {}", std::env::temp_dir().display()),
            "set TMPDIR to a writable directory in memory, such as an emptyDir volume of the medium Memory",
        ))?;
        Ok(Self { folder })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder().join("valid-until")
    }

    /// Replaces the file.
    pub(super) fn write(&self, until: Moment, clock: &dyn Clock) -> std::io::Result<()> {
        let now = clock.both();
        let left = until.as_micros().saturating_sub(now.moment.as_micros());
        let wall = now.wall.as_micros().saturating_add(left);
        let new = self.folder().join("valid-until.new");
        fs::write(&new, format!("{} {}\n", seconds(until.as_micros()), seconds(wall)))?;
        fs::rename(new, self.path())
    }
}

fn seconds(micros: i64) -> String {
    format!("{}.{:06}", micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hustings_client::clock::SystemClock;

    use super::*;

    #[test]
    fn the_file_has_one_moment_by_two_clocks_and_is_removed_with_its_directory() {
        let file = ValidityFile::create().unwrap();
        let clock = SystemClock;
        file.write(Moment::from_micros(7_000_001), &clock).unwrap();
        file.write(clock.now().after(Duration::from_secs(100)), &clock).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        let numbers: Vec<f64> = text.trim_end().split(' ').map(|number| number.parse().unwrap()).collect();
        let uptime = fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        assert!((50.0..=100.1).contains(&(numbers[0] - uptime)), "{text}");
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((50.0..=100.1).contains(&(numbers[1] - wall)), "{text}");
        assert_eq!(fs::read_dir(file.folder()).unwrap().count(), 1, "nothing else is left there");
        let folder = file.folder().to_owned();
        drop(file);
        assert!(!folder.exists());
    }

    #[test]
    fn decimals_are_padded() {
        assert_eq!(seconds(7_000_001), "7.000001");
    }
}
