//! The flags of `hustings copy-binary`.

use std::path::PathBuf;

use clap::Args;

/// The flags of `hustings copy-binary`.
#[derive(Args, Clone, Debug)]
pub struct CopyBinaryFlags {
    /// The file to write, or the directory to write it to; an existing file is replaced
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
}
