//! The flags of `hustings controller`.

use std::time::Duration;

use clap::Args;

use super::timing::TimingFlags;
use super::values::{duration, namespace_name, object_name, switch};
use super::{GlobalFlags, Values};
use crate::controller::{Config, OwnLease};
use crate::ops::http::ListenAddress;
use crate::ops::metrics::DEFAULT_LEASE_LIMIT;

/// The namespace of the kubelets' Leases. Hustings never touches it.
const NODE_LEASE_NAMESPACE: &str = "kube-node-lease";

/// The flags of `hustings controller`, unparsed.
#[derive(Args, Clone, Debug)]
pub struct ControllerFlags {
    /// The namespaces in which this controller elects, separated by commas; empty for all
    #[arg(long, value_name = "NAMES", default_value = "", hide_default_value = true)]
    pub watch_namespaces: String,
    /// Where to serve health and metrics: `:PORT` or `HOST:PORT`
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    pub admin_address: String,
    /// Elect only while this process holds the controllers' own Lease; if false, this must be the only controller
    #[arg(long, value_name = "BOOL", default_value = "true", num_args = 0..=1, default_missing_value = "true")]
    pub leader_elect: String,
    /// How long the own Lease lasts without a renewal
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub leader_elect_lease_duration: String,
    /// How long the holder of the own Lease tries to renew before it stops electing
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub leader_elect_renew_deadline: String,
    /// How often the holder renews the own Lease, and how often a standby reads it while its watch is silent
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub leader_elect_retry_period: String,
    /// The name of the own Lease
    #[arg(long, value_name = "NAME", default_value = "hustings-controller")]
    pub leader_elect_resource_name: String,
    /// The namespace of the own Lease; without it, the namespace of this process
    #[arg(long, value_name = "NAME")]
    pub leader_elect_resource_namespace: Option<String>,
    /// How long a Lease without a holder waits for further candidates after the first has appeared; 0s turns this off
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    pub settling: String,
    /// How long a candidate without an owner may be silent before the controller pings it, and again before it deletes it
    #[arg(long, value_name = "DURATION", default_value = "30m")]
    pub candidate_validity: String,
    /// How many Leases have metrics of their own; the other Leases share the series with lease="_other"
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_LEASE_LIMIT.to_string())]
    pub metrics_lease_limit: String,
}

impl ControllerFlags {
    /// Parses the flags. Returns `None` if a value is invalid; `values` then has the reason.
    pub fn read(&self, global: &GlobalFlags, values: &mut Values) -> Option<Config> {
        if let Some(namespace) = &global.namespace {
            values.take("namespace", namespace, namespace_name);
        }
        let watch_namespaces = values.take("watch-namespaces", &self.watch_namespaces, namespaces);
        let admin_address = values.take("admin-address", &self.admin_address, ListenAddress::read);
        let leader_elect = values.take("leader-elect", &self.leader_elect, switch);
        let name = values.take("leader-elect-resource-name", &self.leader_elect_resource_name, object_name);
        let namespace = match &self.leader_elect_resource_namespace {
            Some(text) => values.take("leader-elect-resource-namespace", text, namespace_name).map(Some),
            None => Some(None),
        };
        let timing = TimingFlags {
            prefix: "leader-elect-",
            lease_duration: &self.leader_elect_lease_duration,
            renew_deadline: &self.leader_elect_renew_deadline,
            retry_period: &self.leader_elect_retry_period,
        };
        let timing = timing.read(values);
        let settling = values.take("settling", &self.settling, settling);
        let validity = values.take("candidate-validity", &self.candidate_validity, validity);
        let metrics_lease_limit = values.take("metrics-lease-limit", &self.metrics_lease_limit, lease_limit);
        Some(Config {
            watch_namespaces: watch_namespaces?,
            admin_address: admin_address?,
            own_lease: leader_elect?.then_some(OwnLease { name: name?, namespace: namespace?, timing: timing? }),
            settling: settling?,
            candidate_validity: validity?,
            metrics_lease_limit: metrics_lease_limit?,
        })
    }
}

fn namespaces(text: &str) -> Result<Vec<String>, String> {
    let mut names = text
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(namespace_name)
        .collect::<Result<Vec<_>, _>>()?;
    if names.iter().any(|name| name == NODE_LEASE_NAMESPACE) {
        return Err(format!(
            "{NODE_LEASE_NAMESPACE:?} has the node heartbeats, and Hustings never elects there: remove it"
        ));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// `--settling` must not exceed the length of an election: two election windows, 10 s.
fn settling(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        settling if settling <= Duration::from_secs(10) => Ok(settling),
        _ => Err(format!("{text:?} is longer than 10s, the length of an election")),
    }
}

/// A candidate that has been silent for less than an election window may still answer.
fn validity(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        validity if validity >= Duration::from_secs(5) => Ok(validity),
        _ => Err(format!("{text:?} is shorter than 5s, the election window")),
    }
}

fn lease_limit(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number of Leases: use a whole number such as 1000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_a_list_without_repetition_and_without_kube_node_lease() {
        assert_eq!(namespaces("b, a,,b"), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(namespaces(""), Ok(Vec::new()));
        assert!(namespaces("a,kube-node-lease").is_err());
        assert!(namespaces("A").is_err());
    }

    #[test]
    fn a_candidate_has_at_least_an_election_window_to_show_that_it_lives() {
        assert_eq!(validity("5s"), Ok(Duration::from_secs(5)));
        assert!(validity("4999ms").is_err());
    }
}
