//! The `hustings` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    // kube leaves the choice of the cryptography to the process. It fails only where one has been chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    hustings::cli::run(std::env::args_os())
}
