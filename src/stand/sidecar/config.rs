//! The configuration of `hustings sidecar`, which is its flags. `cli` checks the rules that concern several of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hustings_client::FailOpen;
use hustings_client::api::read_pod_label;
use hustings_core::model::PodLabel;

use super::OwnPod;
use crate::base::duration;
use crate::base::parsers::{at_most, value};
use crate::serve::http::ListenAddress;
use crate::stand::candidacy::Candidacy;

/// The longest `--handover-delay`. Together with the other steps at the end of a term, it is shorter than the stop
/// grace.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(20);

/// The end of `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0    a signal stopped it
  1    it could not start (a port in use, no kubeconfig), or it failed otherwise
  2    the command line is invalid";

/// The configuration of the sidecar.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Config {
    /// The replica for which it stands.
    #[command(flatten)]
    pub candidacy: Candidacy,
    /// Where to serve the program's requests: `HOST:PORT`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4040", value_parser = value(ListenAddress::read))]
    pub listen: ListenAddress,
    /// A Unix socket on which to serve the program's requests as well; its owner and group may connect
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Stand for the Lease only while a client holds a stream of /term open, and release it when that connection closes
    #[arg(long)]
    pub while_connected: bool,
    /// Where to serve health, metrics and /isleader: `:PORT` or `HOST:PORT`
    #[arg(long, value_name = "ADDRESS", default_value = ":4041", value_parser = value(ListenAddress::read))]
    pub admin_address: ListenAddress,
    /// A label to keep on this pod (POD_NAME, POD_NAMESPACE) while this replica leads, such as hustings.io/leader=true
    #[arg(long, value_name = "KEY=VALUE", value_parser = value(read_pod_label))]
    pub pod_label: Option<PodLabel>,
    /// How long to keep the Lease after reporting the end of a term, so that the program can stop before another
    /// replica leads
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = value(|text| at_most(text, LONGEST_DELAY)))]
    pub handover_delay: Duration,
    /// How long the time range of this replica may continue after its end while no other holder is known, or
    /// `unbounded`
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = value(fail_open))]
    pub fail_open: FailOpen,
    /// This pod, if it gets the label
    #[arg(skip)]
    pub pod: Option<OwnPod>,
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
