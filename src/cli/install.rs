//! `hustings install`: the binary copies itself, since its image has nothing else that could.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context as _;
use clap::Args;

use super::Hinted;

/// The flags of `hustings install`.
#[derive(Args, Clone, Debug)]
pub struct InstallFlags {
    /// The file to be written, or the directory in which it is to be; what stands there is replaced
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
}

impl InstallFlags {
    /// Copies this binary, with the permissions it has.
    pub(super) fn install(&self) -> anyhow::Result<()> {
        let path = if self.path.is_dir() { self.path.join("hustings") } else { self.path.clone() };
        let mut new = path.clone().into_os_string();
        new.push(".new");
        let own = std::env::current_exe().context("the path of this binary is not known")?;
        // A file that is being executed can be replaced, but not written.
        let copied = check(&path).and_then(|()| fs::copy(own, &new)).and_then(|_| fs::rename(&new, &path));
        copied.map_err(|error| {
            // Half a binary helps nobody, and may not even be there.
            let _ = fs::remove_file(Path::new(&new));
            let hint = "give a file, or a directory that exists and can be written";
            anyhow::Error::from(error).context(Hinted::new(format!("cannot write {}", path.display()), hint))
        })
    }
}

/// Fails if there is something else than a file. Root could replace a device as well.
fn check(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is no file")),
        _ => Ok(()),
    }
}
