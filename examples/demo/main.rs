//! The whole of Hustings in a minute and a half, on a real kube-apiserver: `cargo run --example demo`.
//!
//! Helm installs the chart. Two controllers run under its ServiceAccount, and three components stand for election as
//! `hustings campaign` processes. The demo kills, stops and upgrades them, adds better ones, and kills their controller. A
//! step counts only when a watch on the Lease and the processes' own lines agree. The demo fails if two processes ever led
//! at once.
//!
//! With `--native`, two real kube-controller-managers stand instead, and Hustings elects them. `--json` prints every event
//! as a line of JSON. `--page` opens the controllers' page in a browser, and keeps the last scene for it. On a terminal, a
//! timeline below the story shows who leads. Exit code: 0, 1 if a step failed, 130 after Ctrl-C.

mod live;
mod native;
mod observer;
mod page;
mod scenes;
mod show;
mod stage;

use std::process::ExitCode;

use show::Show;

/// The first argument with which this program behaves as the `hustings` binary, which `cargo run --example` does not
/// build.
const AS_HUSTINGS: &str = "--as-hustings";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|first| first == AS_HUSTINGS) {
        // As in the binary's `main`.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let rest = arguments.into_iter().skip(2);
        return hustings::app::run(std::iter::once("hustings".to_owned()).chain(rest).map(Into::into));
    }
    let (mut json, mut native, mut page) = (false, false, false);
    for argument in arguments.iter().skip(1) {
        match argument.as_str() {
            "--json" => json = true,
            "--native" => native = true,
            "--page" => page = true,
            other => {
                eprintln!("error: unknown argument {other}\nhint: use --json, --native, --page, or none");
                return ExitCode::from(2);
            }
        }
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(async {
        let mut show = Show::new(json);
        // Dropping the story ends every process that it started.
        let outcome = tokio::select! {
            outcome = play(native, page, &mut show) => Some(outcome),
            _ = tokio::signal::ctrl_c() => None,
        };
        match outcome {
            Some(Ok(())) => ExitCode::SUCCESS,
            Some(Err(error)) => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
            None => {
                eprintln!("interrupted; everything that was started has been ended");
                ExitCode::from(130)
            }
        }
    })
}

async fn play(native: bool, page: bool, show: &mut Show) -> anyhow::Result<()> {
    if native { native::play(show, page).await } else { scenes::play(show, page).await }
}
