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

/// Together with what else the end of a term needs, less than the grace that work has.
const LONGEST_DELAY: Duration = Duration::from_secs(20);

/// What `--help` says after the flags.
const EXIT_CODES: &str = "\
Exit codes:
  0    it was told to stop
  1    it could not begin (a port in use, no kubeconfig), or failed otherwise
  2    the command line is refused";

/// The flags of `hustings sidecar`, as they were written.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct SidecarFlags {
    /// For what it stands.
    #[command(flatten)]
    pub candidacy: CandidacyFlags,
    /// Where the program beside asks who leads: `HOST:PORT`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4040")]
    pub listen: String,
    /// Where health, metrics and /isleader are served: `:PORT` or `HOST:PORT`
    #[arg(long, value_name = "ADDRESS", default_value = ":4041")]
    pub admin_address: String,
    /// A label that the own pod (POD_NAME, POD_NAMESPACE) has while it leads, such as hustings.io/leader=true
    #[arg(long, value_name = "KEY=VALUE")]
    pub pod_label: Option<String>,
    /// How long the program has to notice the end of a term, with the Lease still held, before another may lead
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub handover_delay: String,
    /// How long the time range of this replica goes on after its end while no other is known to have taken over, or
    /// `unbounded`
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub fail_open: String,
}

impl SidecarFlags {
    /// What the flags mean; `None` where `values` has refused any of them.
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
            _ => Err("is longer than 20s".to_owned()),
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

/// The pod in which this process is, as the downward API tells it.
fn pod() -> Result<Pod, String> {
    let needed = |name: &str| variable(name).ok_or_else(|| format!("needs {name} in the environment"));
    let uid = variable("POD_UID").filter(|uid| !is_static_pod_uid(uid));
    Ok(Pod { name: needed("POD_NAME")?, namespace: needed("POD_NAMESPACE")?, uid })
}
