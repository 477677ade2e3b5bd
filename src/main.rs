//! The `hustings` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    // kube leaves the choice of the crypto provider to the process. The call fails only if one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    hustings::cli::run(std::env::args_os())
}
