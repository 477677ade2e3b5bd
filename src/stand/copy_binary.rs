//! `hustings copy-binary` copies this binary, because its image contains no other program that could.

use std::path::Path;
use std::{fs, io};

use anyhow::Context as _;

use crate::base::hint::Hinted;

/// Copies this binary with its permissions to the file `path`, or into the directory `path`.
///
/// # Errors
/// Fails if the file cannot be written, or if `path` is neither a file nor a directory.
pub(crate) fn copy_binary(path: &Path) -> anyhow::Result<()> {
    let path = if path.is_dir() { path.join("hustings") } else { path.to_owned() };
    let mut new = path.clone().into_os_string();
    new.push(".new");
    let own = std::env::current_exe().context("cannot find the path of this binary")?;
    // The kernel permits replacing a running executable, but not writing to it.
    let copied = check(&path).and_then(|()| fs::copy(own, &new)).and_then(|_| fs::rename(&new, &path));
    copied.map_err(|error| {
        // Remove a partial copy, if any.
        let _ = fs::remove_file(Path::new(&new));
        let hint = "pass a file or an existing directory in which this user may write";
        anyhow::Error::from(error).context(Hinted::new(format!("cannot write {}", path.display()), hint))
    })
}

/// Fails if `path` exists and is not a regular file. Otherwise root could replace a device.
fn check(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is not a regular file")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_replaces_a_file_at_once_and_one_that_fails_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let size = |name: &str| fs::metadata(folder.path().join(name)).map(|file| file.len()).ok();
        let own = fs::metadata(std::env::current_exe().unwrap()).unwrap().len();
        fs::write(folder.path().join("hustings"), "old").unwrap();
        copy_binary(folder.path()).unwrap();
        copy_binary(&folder.path().join("other")).unwrap();
        assert_eq!((size("hustings"), size("other"), size("hustings.new")), (Some(own), Some(own), None));

        // As a copy that was interrupted leaves it.
        let taken = folder.path().join("taken");
        fs::create_dir_all(taken.join("hustings")).unwrap();
        fs::write(taken.join("hustings.new"), "half").unwrap();
        let error = copy_binary(&taken).unwrap_err();
        assert!(format!("{error:#}").ends_with("taken/hustings: it is not a regular file"), "{error:#}");
        assert_eq!(size("taken/hustings.new"), None);
    }
}
