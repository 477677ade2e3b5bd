//! The binary `hustings` of this build, for the images of the tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    hustings::app::run(std::env::args_os())
}
