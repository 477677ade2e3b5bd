//! Builds the binary of the image.
//!
//! The image has no libraries, so the binary must be static. Build scripts and macros cannot be. The build therefore
//! names its target even if that is this machine's: cargo then applies the flags to the target alone.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

/// A build of the static binary.
#[derive(Clone, Debug)]
pub struct Build {
    target: String,
    profile: String,
}

impl Build {
    /// A build for a Rust target, or for this machine's, with a Cargo profile.
    ///
    /// # Errors
    /// Fails if rustc does not run.
    pub fn new(target: Option<String>, profile: String) -> anyhow::Result<Self> {
        let target = target.map_or_else(host, Ok)?;
        Ok(Self { target, profile })
    }

    /// The flags of the compiler, for the variable `RUSTFLAGS`.
    pub const RUSTFLAGS: &str = "-C target-feature=+crt-static";

    /// The arguments of cargo.
    pub fn arguments(&self) -> Vec<&str> {
        let profile = if self.profile == "release" { vec!["--release"] } else { vec!["--profile", &self.profile] };
        let package = ["--locked", "--package", "hustings", "--bin", "hustings", "--target", &self.target];
        [&["build"], profile.as_slice(), &package].concat()
    }

    /// Builds the binary and returns its path. Cargo reports its progress on standard error.
    ///
    /// # Errors
    /// Fails if the build fails.
    pub fn run(&self) -> anyhow::Result<PathBuf> {
        let arguments = self.arguments();
        let (flags, line) = (Self::RUSTFLAGS, arguments.join(" "));
        eprintln!(
            "building the static binary, which takes several minutes the first time: RUSTFLAGS=\"{flags}\" cargo {line}"
        );
        let root = workspace();
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(&arguments).current_dir(root).env("RUSTFLAGS", flags).env_remove("CARGO_ENCODED_RUSTFLAGS");
        let status = command.status().context("cannot run cargo")?;
        ensure!(status.success(), "cargo {line} failed");
        let output = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path));
        let directory = if self.profile == "dev" { "debug" } else { &self.profile };
        Ok(output.join(&self.target).join(directory).join("hustings"))
    }
}

/// The root of this workspace.
fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn host() -> anyhow::Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "host-tuple"]).output().context("cannot run rustc")?;
    ensure!(output.status.success(), "rustc --print host-tuple failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
