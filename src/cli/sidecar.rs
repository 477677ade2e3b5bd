//! The flags of `hustings sidecar`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hustings_client::FailOpen;
use hustings_client::api::names::is_static_pod_uid;
use hustings_client::api::read_pod_label;
use hustings_core::model::PodLabel;

use super::Mistakes;
use crate::base::duration;
use crate::base::environment::variable;
use crate::base::parsers::{at_most, value};
use crate::serve::http::ListenAddress;
use crate::stand::candidacy::Candidacy;
use crate::stand::sidecar::{Config, OwnPod, StandsWhen};

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
}

impl SidecarFlags {
    /// The configuration; `None` after a mistake.
    pub fn read(self, mistakes: &mut Mistakes) -> Option<Config> {
        let candidacy = self.candidacy.read(mistakes);
        let pod = self
            .pod_label
            .as_ref()
            .and_then(|_| pod(variable).map_err(|reason| mistakes.add("--pod-label", reason)).ok());
        let stands = match (self.while_connected, self.handover_delay) {
            (false, handover_delay) => StandsWhen::Always { handover_delay },
            (true, Duration::ZERO) => StandsWhen::WhileConnected,
            (true, _) => {
                let reason = "has no effect with --while-connected, where the client ends a term by closing its \
                              connection: remove one of the two flags";
                mistakes.add("--handover-delay", reason);
                return None;
            }
        };
        Some(Config {
            candidacy: candidacy?,
            listen: self.listen,
            socket: self.socket,
            admin_address: self.admin_address,
            pod_label: self.pod_label.zip(pod),
            stands,
            fail_open: self.fail_open,
        })
    }
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
fn pod(variable: impl Fn(&str) -> Option<String>) -> Result<OwnPod, String> {
    let needed = |name: &str| {
        variable(name).ok_or_else(|| format!("needs {name} in the environment: set it by the downward API"))
    };
    let uid = variable("POD_UID").filter(|uid| !is_static_pod_uid(uid));
    Ok(OwnPod { name: needed("POD_NAME")?, namespace: needed("POD_NAMESPACE")?, uid })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::testing::{assert_mistakes, sidecar};

    fn read(flags: &str) -> Result<Config, String> {
        sidecar(&format!("--lease=l --direct {flags}"))
    }

    #[test]
    fn each_flag_reaches_the_configuration() {
        for (flags, stands, fail_open) in [
            ("", StandsWhen::Always { handover_delay: Duration::ZERO }, FailOpen::Off),
            ("--handover-delay=20s", StandsWhen::Always { handover_delay: LONGEST_DELAY }, FailOpen::Off),
            ("--while-connected", StandsWhen::WhileConnected, FailOpen::Off),
            ("--while-connected --handover-delay=0s", StandsWhen::WhileConnected, FailOpen::Off),
            ("--while-connected --fail-open=unbounded", StandsWhen::WhileConnected, FailOpen::Unbounded),
            ("--while-connected --fail-open=2m", StandsWhen::WhileConnected, FailOpen::Bounded(Duration::from_mins(2))),
        ] {
            let config = read(flags).unwrap();
            assert_eq!((config.stands, config.fail_open), (stands, fail_open), "{flags}");
        }
        let config = read("--listen=:1 --admin-address=:2 --socket=/s").unwrap();
        let addresses = (config.listen.to_string(), config.admin_address.to_string(), config.socket);
        assert_eq!(addresses, (":1".to_owned(), ":2".to_owned(), Some("/s".into())));
        assert_mistakes(
            &[
                ("--while-connected --handover-delay=1s", "--handover-delay: has no effect"),
                ("--handover-delay=21s", "is longer than 20s"),
                ("--fail-open=often", "is not a duration"),
                ("--pod-label=x", "is not of the form KEY=VALUE"),
            ],
            read,
        );
    }

    #[test]
    fn the_pod_of_a_label_comes_from_the_downward_api_and_a_static_pod_has_no_uid() {
        let mirror = "0123456789abcdef0123456789abcdef";
        for (name, namespace, uid, expected) in [
            ("p", "n", "f3a1b2c4-0000-4000-8000-000000000001", Ok(Some("f3a1b2c4-0000-4000-8000-000000000001"))),
            ("p", "n", mirror, Ok(None)),
            ("p", "n", "", Ok(None)),
            ("", "n", "", Err("needs POD_NAME")),
            ("p", "", "", Err("needs POD_NAMESPACE")),
        ] {
            let pod = pod(|variable| {
                let value = match variable {
                    "POD_NAME" => name,
                    "POD_NAMESPACE" => namespace,
                    "POD_UID" => uid,
                    other => panic!("{other}"),
                };
                Some(value.to_owned()).filter(|value| !value.is_empty())
            });
            match (pod, expected) {
                (Ok(pod), Ok(uid)) => assert_eq!((pod.name.as_str(), pod.uid.as_deref()), ("p", uid)),
                (Err(error), Err(expected)) => assert!(error.starts_with(expected), "{error}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
