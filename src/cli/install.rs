//! The flags of `hustings install`.

use std::path::PathBuf;

use clap::Args;

/// The flags of `hustings install`.
#[derive(Args, Clone, Debug)]
pub struct InstallFlags {
    /// The file to write, or the directory to write it to; an existing file is replaced
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
}
