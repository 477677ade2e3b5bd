//! The flags of `hustings sidecar`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hustings_client::FailOpen;
use hustings_client::api::names::is_static_pod_uid;

use super::parsers::{at_most, value};
use super::{CandidacyFlags, Mistakes};
use crate::duration;
use crate::environment::variable;
use crate::ops::http::ListenAddress;
use crate::sidecar::{Config, Pod, PodLabel, Stands};

/// The longest `--handover-delay`. Together with the other steps at the end of a term, it is shorter than the stop
/// grace.
const LONGEST_DELAY: Duration = Duration::from_secs(20);

/// The end of `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0    a signal stopped it
  1    it could not start (a port in use, no kubeconfig), or it failed otherwise
  2    the command line is invalid";

/// The flags of `hustings sidecar`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct SidecarFlags {
    /// The flags of the candidacy.
    #[command(flatten)]
    pub candidacy: CandidacyFlags,
    /// Where to serve the program's requests: `HOST:PORT`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4040", value_parser = value(ListenAddress::read))]
    pub listen: ListenAddress,
    /// A Unix socket on which to serve the program's requests, too; its owner and its group may connect
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Stand for the Lease only while a client holds a stream of /term open, and release it when that connection closes
    #[arg(long)]
    pub while_connected: bool,
    /// Where to serve health, metrics and /isleader: `:PORT` or `HOST:PORT`
    #[arg(long, value_name = "ADDRESS", default_value = ":4041", value_parser = value(ListenAddress::read))]
    pub admin_address: ListenAddress,
    /// A label to keep on this pod (POD_NAME, POD_NAMESPACE) while this replica leads, such as hustings.io/leader=true
    #[arg(long, value_name = "KEY=VALUE", value_parser = value(PodLabel::read))]
    pub pod_label: Option<PodLabel>,
    /// How long to keep the Lease after reporting the end of a term, so that the program can stop before another
    /// replica leads
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = value(handover_delay))]
    pub handover_delay: Duration,
    /// How long the time range of this replica continues after its end while no other replica is known to have taken
    /// over, or `unbounded`
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = value(fail_open))]
    pub fail_open: FailOpen,
}

impl SidecarFlags {
    /// The configuration; `None` after a mistake.
    pub fn read(self, mistakes: &mut Mistakes) -> Option<Config> {
        let Self { candidacy, listen, socket, while_connected, admin_address, pod_label, handover_delay, fail_open } =
            self;
        let candidacy = candidacy.read(mistakes);
        let pod_label = match pod_label.map(|label| Ok((label, pod()?))).transpose() {
            Ok(pod_label) => Some(pod_label),
            Err::<_, String>(reason) => {
                mistakes.add("--pod-label", reason);
                None
            }
        };
        let stands = match (while_connected, handover_delay) {
            (false, handover_delay) => Stands::Always { handover_delay },
            (true, Duration::ZERO) => Stands::WhileConnected,
            (true, _) => {
                let reason = "has no effect with --while-connected, where the client ends a term by closing its \
                              connection: remove one of the two flags";
                mistakes.add("--handover-delay", reason);
                return None;
            }
        };
        let (candidacy, pod_label) = (candidacy?, pod_label?);
        Some(Config { candidacy, listen, socket, admin_address, pod_label, stands, fail_open })
    }
}

fn handover_delay(text: &str) -> Result<Duration, String> {
    at_most(text, LONGEST_DELAY)
}

fn fail_open(text: &str) -> Result<FailOpen, String> {
    match text {
        "unbounded" => Ok(FailOpen::Unbounded),
        _ => Ok(match duration::parse(text)? {
            Duration::ZERO => FailOpen::Off,
            bound => FailOpen::Bounded(bound),
        }),
    }
}

/// The pod of this process, from the downward API.
fn pod() -> Result<Pod, String> {
    let needed = |name: &str| {
        variable(name).ok_or_else(|| format!("needs {name} in the environment: set it by the downward API"))
    };
    let uid = variable("POD_UID").filter(|uid| !is_static_pod_uid(uid));
    Ok(Pod { name: needed("POD_NAME")?, namespace: needed("POD_NAMESPACE")?, uid })
}
