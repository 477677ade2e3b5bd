//! The whole of Hustings in half a minute, on a real kube-apiserver: `cargo run --example demo`.
//!
//! The demo applies deploy/install.yaml. Two controllers run under its ServiceAccount, and three components stand for
//! election as `hustings campaign` processes. The demo kills, stops and upgrades them, adds better ones, and kills their
//! controller. A step counts only when a watch on the Lease and the processes' own lines agree. The demo fails if two
//! processes ever led at once.
//!
//! With `--kubeconfig FILE`, the demo plays in the cluster of that file's current context, and builds nothing. It has a
//! namespace of its own there, which it deletes at the end. Its controllers elect in that namespace alone, unless an
//! installed controller elects already.
//!
//! With `--native`, Helm installs the chart, and Hustings elects two real kube-controller-managers. `--json` prints every
//! event as a line of JSON. `--page` opens the controllers' page in a browser, and keeps the last scene for it. On a
//! terminal, a timeline below the story shows who leads. Exit code: 0, 1 if a step failed, 130 after Ctrl-C.

mod cluster;
mod install;
mod live;
mod native;
mod observer;
mod page;
mod scenes;
mod show;
mod stage;

use std::process::ExitCode;
use std::rc::Rc;

use cluster::Cluster;
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
    let (mut json, mut native, mut page, mut kubeconfig) = (false, false, false, None);
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--kubeconfig" => {
                let Some(file) = rest.next() else {
                    eprintln!("error: --kubeconfig names no file\nhint: use --kubeconfig FILE");
                    return ExitCode::from(2);
                };
                kubeconfig = Some(file.as_str());
            }
            "--json" => json = true,
            "--native" => native = true,
            "--page" => page = true,
            other => {
                eprintln!(
                    "error: unknown argument {other}\nhint: use --json, --kubeconfig FILE, --native, --page, or none"
                );
                return ExitCode::from(2);
            }
        }
    }
    if native && kubeconfig.is_some() {
        eprintln!("error: --native needs a control plane of its own\nhint: use it without --kubeconfig");
        return ExitCode::from(2);
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
        let cluster = match kubeconfig {
            Some(file) => match Cluster::connect(file).await {
                Ok(cluster) => Some(Rc::new(cluster)),
                Err(error) => {
                    eprintln!("error: {error:#}");
                    return ExitCode::FAILURE;
                }
            },
            None => None,
        };
        // Dropping the story ends every process that it started.
        let outcome = tokio::select! {
            outcome = play(native, page, cluster.as_ref(), &mut show) => Some(outcome),
            _ = tokio::signal::ctrl_c() => None,
        };
        if let Some(cluster) = &cluster {
            cluster.clean().await;
        }
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

async fn play(native: bool, page: bool, cluster: Option<&Rc<Cluster>>, show: &mut Show) -> anyhow::Result<()> {
    if native { native::play(show, page).await } else { scenes::play(show, page, cluster).await }
}
