//! The `hustings` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    // kube leaves the choice of the crypto provider to the process. The call fails only if one is already installed.
    #[cfg(not(feature = "aws-lc-rs"))]
    let provider = rustls::crypto::ring::default_provider();
    #[cfg(feature = "aws-lc-rs")]
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let _ = provider.install_default();
    hustings::app::run(std::env::args_os())
}
