//! A file with the preference of a replica in direct mode.
//!
//! A thread reads the file once a second. It follows a file that is replaced, as the kubelet does with a ConfigMap or a
//! downward API volume, and one on a file system that reports no changes. Content that is not a number changes nothing:
//! the last key stays in force.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hustings_client::Key;
use rustix::fs::OFlags;
use tokio::sync::watch;

use crate::base::hint::Hinted;

/// How often the file is read.
const PERIOD: Duration = Duration::from_secs(1);

/// The longest content, in bytes. The longest number has 20 characters.
const LONGEST_CONTENT: u64 = 64;

/// A file that contains a key. Clones follow the file together.
#[derive(Clone, Debug)]
pub struct KeyFile {
    path: PathBuf,
    followed: Arc<OnceLock<watch::Receiver<Option<i64>>>>,
}

/// Publishes each new key of a file.
struct Follower {
    path: PathBuf,
    key: watch::Sender<Option<i64>>,
    problem: Option<String>,
}

impl KeyFile {
    /// A file that is not read yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, followed: Arc::default() }
    }

    /// Returns the key for an elector. Begins to follow the file at the first call.
    ///
    /// # Errors
    /// Fails if the file is missing or contains anything but a number. An empty file means that the key is not known
    /// yet. Once this has succeeded, it never fails.
    pub(super) fn key(&self) -> Result<Key, Hinted> {
        if let Some(key) = self.followed.get() {
            return Ok(key.clone().into());
        }
        let first = read(&self.path).map_err(|problem| {
            let message = format!("cannot read the key from {} (--key-file): it {problem}", self.path.display());
            Hinted::new(message, "write one whole number to the file, such as 7")
        })?;
        if first.is_none() {
            tracing::info!(path = ?self.path, "the key file is empty: this replica asks no holder to hand over yet");
        }
        let (sender, receiver) = watch::channel(first);
        let mut follower = Follower { path: self.path.clone(), key: sender, problem: None };
        // Use a plain thread: at its end the runtime waits for blocking tasks, and a read from a broken file system may
        // never end.
        std::thread::spawn(move || {
            while !follower.key.is_closed() {
                std::thread::sleep(PERIOD);
                follower.read();
            }
        });
        Ok(self.followed.get_or_init(|| receiver).clone().into())
    }
}

impl Follower {
    fn read(&mut self) {
        let problem = match read(&self.path) {
            Ok(Some(key)) => {
                self.problem = None;
                if self.key.send_if_modified(|last| last.replace(key) != Some(key)) {
                    tracing::info!(path = ?self.path, key, "the key has changed");
                }
                return;
            }
            Ok(None) if self.key.borrow().is_none() => return,
            Ok(None) => "is empty".to_owned(),
            Err(problem) => problem,
        };
        if self.problem.as_ref() != Some(&problem) {
            let last = *self.key.borrow();
            tracing::warn!(path = ?self.path, problem, key = last, "cannot read the key; the last one stays in force");
            self.problem = Some(problem);
        }
    }
}

/// Reads a key; `None` if the file is empty.
fn read(path: &Path) -> Result<Option<i64>, String> {
    let failed = |error: std::io::Error| format!("is not readable: {error}");
    // Without this flag, opening a pipe would wait for a writer.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut content = Vec::new();
    file.take(LONGEST_CONTENT + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > LONGEST_CONTENT {
        return Err(format!("has more than {LONGEST_CONTENT} bytes"));
    }
    let content = String::from_utf8_lossy(&content);
    match content.trim() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| format!("contains {text:?}, which is not a whole number")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_contains_one_number_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let long = " ".repeat(65);
        for (content, expected) in [
            (&b"7"[..], Ok(Some(7))),
            (b" -3\r\n", Ok(Some(-3))),
            (b"+5", Ok(Some(5))),
            (b"9223372036854775807\n", Ok(Some(i64::MAX))),
            (b"", Ok(None)),
            (b" \n", Ok(None)),
            (b"9223372036854775808", Err(r#"contains "9223372036854775808", which is not a whole number"#)),
            (b"7.5", Err(r#"contains "7.5", which is not a whole number"#)),
            (b"7 8", Err(r#"contains "7 8", which is not a whole number"#)),
            (b"7\n8\n", Err(r#"contains "7\n8", which is not a whole number"#)),
            (b"\"7\"", Err(r#"contains "\"7\"", which is not a whole number"#)),
            (b"\xff", Err("contains \"\u{fffd}\", which is not a whole number")),
            (long.as_bytes(), Err("has more than 64 bytes")),
        ] {
            fs::write(&path, content).unwrap();
            assert_eq!(read(&path), expected.map_err(str::to_owned), "{content:?}");
        }
        assert_eq!(read(folder.path()), Err("is not a regular file".to_owned()));
        assert_eq!(read(Path::new("/dev/zero")), Err("is not a regular file".to_owned()));
        let missing = read(&folder.path().join("missing")).unwrap_err();
        assert!(missing.starts_with("is not readable: No such file"), "{missing}");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert_eq!(read(&pipe), Err("is not a regular file".to_owned()));
    }

    #[test]
    fn a_key_follows_its_file_and_stays_when_the_file_is_bad() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "").unwrap();
        let key = watch::Sender::new(None);
        let mut follower = Follower { path: path.clone(), key, problem: None };
        for (content, key, is_bad) in [
            (Some(" "), None, false),
            (Some("seven"), None, true),
            (Some("7"), Some(7), false),
            (Some("eight"), Some(7), true),
            (Some(""), Some(7), true),
            (None, Some(7), true),
            (Some("8"), Some(8), false),
        ] {
            match content {
                Some(content) => fs::write(&path, content).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            follower.read();
            assert_eq!((*follower.key.borrow(), follower.problem.is_some()), (key, is_bad), "{content:?}");
        }
    }

    /// The kubelet replaces the link `..data`, which is in the path of the file.
    #[tokio::test]
    async fn a_key_follows_a_volume_that_the_kubelet_replaces() {
        let volume = tempfile::tempdir().unwrap();
        let path = volume.path().join("key");
        let publish = |version: &str, key: &str| {
            let data = volume.path().join(version);
            fs::create_dir(&data).unwrap();
            fs::write(data.join("key"), key).unwrap();
            symlink(&data, volume.path().join("..data_tmp")).unwrap();
            fs::rename(volume.path().join("..data_tmp"), volume.path().join("..data")).unwrap();
        };
        publish("..1", "1\n");
        symlink("..data/key", &path).unwrap();
        let file = KeyFile::new(path);
        file.key().unwrap();
        let mut key = file.followed.get().unwrap().clone();
        assert_eq!(*key.borrow_and_update(), Some(1));
        publish("..2", "2\n");
        key.changed().await.unwrap();
        assert_eq!(*key.borrow_and_update(), Some(2));
        // A further elector of the process does not depend on the file.
        publish("..3", "three\n");
        file.key().unwrap();
    }

    #[test]
    fn a_bad_file_at_the_start_is_an_error_that_names_the_flag() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "high").unwrap();
        let error = KeyFile::new(path.clone()).key().unwrap_err();
        let expected = r#"(--key-file): it contains "high", which is not a whole number"#;
        assert!(error.to_string().ends_with(expected), "{error}");
        fs::write(&path, "\n").unwrap();
        KeyFile::new(path).key().unwrap();
    }
}
