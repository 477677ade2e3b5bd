//! The flags of `hustings controller`.

use std::time::Duration;

use clap::{ArgAction, Args};
use hustings_core::assist::AssistOptions;
use hustings_core::election::{self, NODE_LEASES};

use super::Mistakes;
use super::acts::{LeasePath, lease_path};
use super::timing::timing;
use crate::base::duration;
use crate::base::parsers::{at_most, namespace_name, object_name, value, whole_seconds};
use crate::controller::{AssistedLease, Config, EvidenceConfig, NativeMode, OWN_LEASE, OwnLease};
use crate::serve::http::ListenAddress;
use crate::serve::metrics::DEFAULT_LEASE_LIMIT;

/// The longest `--settling`: the length of an election, two election windows.
const LONGEST_SETTLING: Duration = Duration::from_secs(10);

/// The shortest `--candidate-validity`: the election window. A candidate that was silent for a shorter time may still
/// answer.
const SHORTEST_VALIDITY: Duration = Duration::from_secs(5);

/// The flags of `hustings controller`.
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[derive(Args, Clone, Debug)]
pub struct ControllerFlags {
    /// The namespaces in which this controller elects, separated by commas; by default all
    #[arg(long, value_name = "NAMES", default_value = "", hide_default_value = true,
        value_parser = value(NamespaceFlags::read))]
    pub watch_namespaces: NamespaceFlags,
    /// Where to serve health and metrics: `:PORT` or `HOST:PORT`
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", value_parser = value(ListenAddress::read))]
    pub admin_address: ListenAddress,
    /// Serve the page `/ui`, with all Leases and candidates, to everyone who can reach the admin address; by default
    /// only if that is a loopback address
    #[arg(long, value_name = "BOOL")]
    pub ui: Option<bool>,
    /// Elect only while this process holds the controllers' own Lease; if false, elect without it: this must then be the
    /// only controller
    #[arg(long, value_name = "BOOL", default_value = "true", action = ArgAction::Set)]
    pub leader_elect: bool,
    /// How long the controllers' own Lease lasts without a renewal
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = value(whole_seconds))]
    pub leader_elect_lease_duration: u32,
    /// How long the leading controller tries to renew its Lease before it stops electing
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = value(duration::parse))]
    pub leader_elect_renew_deadline: Duration,
    /// How often the leading controller renews its Lease, and how often a standby reads it while its watch is silent
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = value(duration::parse))]
    pub leader_elect_retry_period: Duration,
    /// The name of the controllers' own Lease
    #[arg(long, value_name = "NAME", default_value = OWN_LEASE, value_parser = value(object_name))]
    pub leader_elect_resource_name: String,
    /// The namespace of the controllers' own Lease; by default that of this process
    #[arg(long, value_name = "NAME", value_parser = value(namespace_name))]
    pub leader_elect_resource_namespace: Option<String>,
    /// Also elect the candidates of Kubernetes' own API, coordination.k8s.io, if the API server serves them
    #[arg(long, value_name = "BOOL", default_value = "false", action = ArgAction::Set)]
    pub native: bool,
    /// Take the place of Kubernetes' election controller, which a kube-apiserver with CoordinatedLeaderElection runs;
    /// needs --native
    #[arg(long, value_name = "BOOL", default_value = "false", action = ArgAction::Set)]
    pub native_stand_in: bool,
    /// Elect as soon as the kubelet reports that the container of a holder has terminated; needs permission to list and
    /// watch Pods
    #[arg(long, value_name = "BOOL", default_value = "false", action = ArgAction::Set)]
    pub evidence_pods: bool,
    /// Watch only the Pods with these labels, in the form of `kubectl get pods --selector`; needs --evidence-pods
    #[arg(long, value_name = "SELECTOR")]
    pub evidence_pod_selector: Option<String>,
    /// Elect as soon as the node of a holder has the taint node.kubernetes.io/out-of-service; needs --evidence-pods and
    /// permission to list and watch Nodes
    #[arg(long, value_name = "BOOL", default_value = "false", action = ArgAction::Set)]
    pub evidence_nodes: bool,
    /// Keep this Lease assisted: write hustings.io/assist again whenever it is missing or differs. Repeat the flag, or
    /// separate Leases by semicolons; needs --evidence-pods
    #[arg(long, value_name = "NAMESPACE/NAME[,container=C][,pod-namespace=N][,pod-prefix=P]",
        value_parser = value(AssistedFlags::read))]
    pub assist: Vec<AssistedFlags>,
    /// Keep the label of the annotation hustings.io/leader-label on the Pod of each Lease's holder, and on no other; needs
    /// permission to get, list, watch and patch Pods
    #[arg(long, value_name = "BOOL", default_value = "false", action = ArgAction::Set)]
    pub leader_labels: bool,
    /// How long a Lease without a holder waits for more candidates after the first one has appeared; 0s does not wait
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = value(|text| at_most(text, LONGEST_SETTLING)))]
    pub settling: Duration,
    /// How long a candidate without an owner may be silent before the controller pings it, and again before the
    /// controller deletes it
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = value(validity))]
    pub candidate_validity: Duration,
    /// How many Leases have metrics of their own; the other Leases share the series with lease="_other"
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_LEASE_LIMIT, value_parser = value(lease_limit))]
    pub metrics_lease_limit: usize,
}

/// Leases to keep assisted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssistedFlags(Vec<AssistedLease>);

/// Names of namespaces, sorted and without repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceFlags(Vec<String>);

impl ControllerFlags {
    /// The configuration; `None` after a mistake.
    pub fn read(self, mistakes: &mut Mistakes) -> Option<Config> {
        let timing = timing(
            "leader-elect-",
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
            mistakes,
        )?;
        let native = match (self.native, self.native_stand_in) {
            (true, true) => NativeMode::StandIn,
            (true, false) => NativeMode::Elect,
            (false, false) => NativeMode::Off,
            (false, true) => {
                mistakes.add("--native-stand-in", "needs --native: add it, or remove --native-stand-in");
                return None;
            }
        };
        let assist = assisted(self.assist, mistakes)?;
        for (flag, is_set) in [
            ("--assist", !assist.is_empty()),
            ("--evidence-nodes", self.evidence_nodes),
            ("--evidence-pod-selector", self.evidence_pod_selector.is_some()),
        ] {
            if is_set && !self.evidence_pods {
                mistakes.add(flag, format!("needs --evidence-pods: add it, or remove {flag}"));
                return None;
            }
        }
        let evidence = EvidenceConfig { pods: self.evidence_pods, nodes: self.evidence_nodes };
        let own_lease =
            OwnLease { name: self.leader_elect_resource_name, namespace: self.leader_elect_resource_namespace, timing };
        let config = Config {
            watch_namespaces: self.watch_namespaces.0,
            admin_address: self.admin_address,
            ui: self.ui,
            own_lease: self.leader_elect.then_some(own_lease),
            native,
            evidence_pod_selector: self.evidence_pod_selector,
            leader_labels: self.leader_labels,
            assist,
            election: election::Config {
                settling: self.settling,
                validity: self.candidate_validity,
                evidence,
                ..election::Config::default()
            },
            metrics_lease_limit: self.metrics_lease_limit,
        };
        for AssistedLease { namespace, name, options } in &config.assist {
            let of_pods = options.namespace_of_pods(namespace);
            if let Some(missing) = [namespace, of_pods].into_iter().find(|namespace| !config.watches(namespace)) {
                let text = format!(
                    "{namespace}/{name} needs the namespace {missing}, but --watch-namespaces lacks {missing}: add it there"
                );
                mistakes.add("--assist", text);
                return None;
            }
        }
        Some(config)
    }
}

/// All Leases to keep assisted, sorted; `None` after a mistake.
fn assisted(flags: Vec<AssistedFlags>, mistakes: &mut Mistakes) -> Option<Vec<AssistedLease>> {
    let mut leases: Vec<_> = flags.into_iter().flat_map(|AssistedFlags(leases)| leases).collect();
    leases.sort();
    leases.dedup();
    let twice =
        leases.windows(2).find(|pair| (&pair[0].namespace, &pair[0].name) == (&pair[1].namespace, &pair[1].name));
    if let Some([AssistedLease { namespace, name, .. }, ..]) = twice {
        mistakes.add("--assist", format!("names {namespace}/{name} twice with different options: keep one"));
        return None;
    }
    Some(leases)
}

impl AssistedFlags {
    fn read(text: &str) -> Result<Self, String> {
        let items = text.split(';').map(str::trim).filter(|item| !item.is_empty());
        let read = |item: &str| {
            let (path, options) = item.split_once(',').unwrap_or((item, ""));
            let LeasePath { namespace, name } = lease_path(path.trim())?;
            let namespace =
                namespace.ok_or_else(|| format!("{path:?} has no namespace: use the form NAMESPACE/NAME"))?;
            if namespace == NODE_LEASES {
                return Err(format!("{item:?} is the heartbeat of a node, not a lock: remove it"));
            }
            Ok(AssistedLease { namespace, name, options: AssistOptions::read(options)? })
        };
        match items.map(read).collect::<Result<Vec<_>, _>>()? {
            leases if leases.is_empty() => Err(format!("{text:?} names no Lease: use the form NAMESPACE/NAME")),
            leases => Ok(Self(leases)),
        }
    }
}

impl NamespaceFlags {
    fn read(text: &str) -> Result<Self, String> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let mut names = names.map(namespace_name).collect::<Result<Vec<_>, _>>()?;
        if names.iter().any(|name| name == NODE_LEASES) {
            return Err(format!("{NODE_LEASES:?} has the node heartbeats, and Hustings never elects there: remove it"));
        }
        names.sort();
        names.dedup();
        Ok(Self(names))
    }
}

fn validity(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        validity if validity >= SHORTEST_VALIDITY => Ok(validity),
        _ => Err(format!("{text:?} is shorter than {SHORTEST_VALIDITY:?}, the election window: use a longer one")),
    }
}

fn lease_limit(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number of Leases: use a whole number such as 1000"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::testing::controller as read;

    #[test]
    fn namespaces_are_a_list_without_repetition_and_without_kube_node_lease() {
        assert_eq!(NamespaceFlags::read("b, a,,b"), Ok(NamespaceFlags(vec!["a".to_owned(), "b".to_owned()])));
        assert_eq!(NamespaceFlags::read(""), Ok(NamespaceFlags(Vec::new())));
        assert!(NamespaceFlags::read("a,kube-node-lease").is_err());
        assert!(NamespaceFlags::read("A").is_err());
    }

    #[test]
    fn assisted_leases_are_a_list_without_repetition() {
        let read = |flags: &str| read(&format!("--evidence-pods {flags}")).map(|config| config.assist);
        let lease = |name: &str, options: &str| AssistedLease {
            namespace: "n".to_owned(),
            name: name.to_owned(),
            options: AssistOptions::read(options).unwrap(),
        };
        let flags = "--assist=n/b,container=c,pod-prefix=p --assist=n/a;;n/b,pod-prefix=p,container=c;";
        assert_eq!(read(flags).unwrap(), [lease("a", ""), lease("b", "container=c,pod-prefix=p")]);
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn a_candidate_has_at_least_one_election_window_to_prove_that_it_is_live() {
        assert_eq!(validity("5s"), Ok(Duration::from_secs(5)));
        assert!(validity("4999ms").is_err());
    }
}
