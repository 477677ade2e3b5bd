//! The flags of `hustings sidecar`.

use std::time::Duration;

use clap::Args;
use hustings_client::FailOpen;
use hustings_client::api::names::is_static_pod_uid;

use super::values::duration;
use super::{CandidacyFlags, GlobalFlags, Values};
use crate::environment::variable;
use crate::ops::http::ListenAddress;
use crate::sidecar::{Config, Pod, PodLabel};

/// The longest `--handover-delay`. With everything else that the end of a term needs, it stays below the stop grace.
const LONGEST_DELAY: Duration = Duration::from_secs(20);

/// What `--help` says after the flags.
const EXIT_CODES: &str = "\
Exit codes:
  0    a signal stopped it
  1    it could not start (a port in use, no kubeconfig), or it failed otherwise
  2    the command line is invalid";

/// The flags of `hustings sidecar`, unparsed.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct SidecarFlags {
    /// The flags of the candidacy.
    #[command(flatten)]
    pub candidacy: CandidacyFlags,
    /// Where to serve the program's requests: `HOST:PORT`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4040")]
    pub listen: String,
    /// Where to serve health, metrics and /isleader: `:PORT` or `HOST:PORT`
    #[arg(long, value_name = "ADDRESS", default_value = ":4041")]
    pub admin_address: String,
    /// A label to keep on this pod (POD_NAME, POD_NAMESPACE) while this replica leads, such as hustings.io/leader=true
    #[arg(long, value_name = "KEY=VALUE")]
    pub pod_label: Option<String>,
    /// How long to keep the Lease after reporting the end of a term, so that the program can stop before another replica leads
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub handover_delay: String,
    /// How long the time range of this replica continues after its end while no other replica is known to have taken
    /// over, or `unbounded`
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub fail_open: String,
}

impl SidecarFlags {
    /// Parses the flags. Returns `None` if a value is invalid; `values` then has the reason.
    pub fn read(&self, global: &GlobalFlags, values: &mut Values) -> Option<Config> {
        let candidacy = self.candidacy.read(global, values);
        let listen = values.take("listen", &self.listen, ListenAddress::read);
        let admin_address = values.take("admin-address", &self.admin_address, ListenAddress::read);
        let pod_label = match &self.pod_label {
            Some(text) => values.take("pod-label", text, |text| Ok((PodLabel::read(text)?, pod()?))).map(Some),
            None => Some(None),
        };
        let handover_delay = values.take("handover-delay", &self.handover_delay, |text| match duration(text)? {
            delay if delay <= LONGEST_DELAY => Ok(delay),
            _ => Err(format!("{text:?} is longer than 20s")),
        });
        let fail_open = values.take("fail-open", &self.fail_open, |text| match text {
            "unbounded" => Ok(FailOpen::Unbounded),
            _ => Ok(match duration(text)? {
                Duration::ZERO => FailOpen::Off,
                bound => FailOpen::Bounded(bound),
            }),
        });
        Some(Config {
            candidacy: candidacy?,
            listen: listen?,
            admin_address: admin_address?,
            pod_label: pod_label?,
            handover_delay: handover_delay?,
            fail_open: fail_open?,
        })
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
