//! The copy of the tree in which a bug is planted.
//!
//! There is one copy, and one target directory beside it, so that each mutant is an incremental build. A file is written only
//! if it differs. A file that a mutant changed differs from the original, so updating the copy also restores it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The path of this package's workspace.
pub fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(3).unwrap_or(package).to_owned()
}

/// The copy, under the workspace's target directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    original: PathBuf,
    root: PathBuf,
}

impl Tree {
    /// The copy, as it was left.
    pub fn of(original: PathBuf) -> Self {
        let root = original.join("target/mutants/tree");
        Self { original, root }
    }

    /// Its path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder for its build, and for the result of each trial.
    pub fn output(&self) -> PathBuf {
        self.original.join("target/mutants/out")
    }

    /// Updates it to the original's tracked files, committed or not.
    pub fn restore(&self) -> Result<()> {
        let tracked: BTreeSet<PathBuf> = files(&self.original)?.into_iter().collect();
        for file in &tracked {
            // A deleted file that is not committed yet is tracked, too.
            let Ok(wanted) = fs::read(self.original.join(file)) else { continue };
            let copy = self.root.join(file);
            if fs::read(&copy).ok().as_ref() != Some(&wanted) {
                fs::create_dir_all(copy.parent().unwrap_or(&self.root))?;
                fs::write(&copy, wanted).with_context(|| format!("cannot write {}", copy.display()))?;
            }
        }
        self.remove_others(&self.root, &tracked)
    }

    fn remove_others(&self, folder: &Path, tracked: &BTreeSet<PathBuf>) -> Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.remove_others(&path, tracked)?;
            } else if path.strip_prefix(&self.root).is_ok_and(|file| !tracked.contains(file)) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// Plants a bug.
    pub fn apply(&self, patch: &Path) -> Result<()> {
        apply(&self.original, &["--directory", "target/mutants/tree"], patch)
    }
}

/// Whether a patch still applies to the workspace. Changes nothing.
pub fn check(patch: &Path) -> Result<()> {
    apply(&workspace(), &["--check"], patch)
}

fn apply(workspace: &Path, options: &[&str], patch: &Path) -> Result<()> {
    let mut git = Command::new("git");
    git.current_dir(workspace).arg("apply").args(options).arg(patch);
    let output = git.output().context("cannot run git")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} does not apply: {}", patch.display(), errors.trim());
    Ok(())
}

fn files(workspace: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git").current_dir(workspace).args(["ls-files", "-z"]).output();
    let output = output.context("cannot run git")?;
    ensure!(output.status.success(), "git does not list the files of {}", workspace.display());
    let names = String::from_utf8(output.stdout).context("a file's name is no UTF-8")?;
    Ok(names.split_terminator('\0').map(PathBuf::from).collect())
}
