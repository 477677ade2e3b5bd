//! Real electors, one for each of the ordinary Leases, that crash together.

use std::time::{Duration, Instant};

use hustings_client::{Elections, Leadership, lease_client};
use tokio::runtime::{Builder, Runtime};

use super::probe::Probe;

/// How long the API server may be slow.
const PATIENCE: Duration = Duration::from_mins(10);

/// The replicas of one version, in a runtime of their own. They share one watch, and execute nothing after the crash.
pub(super) struct Fleet {
    runtime: Option<Runtime>,
    leaderships: Vec<Leadership>,
}

/// How long the Leases took, each from the same instant.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Vec<(Duration, String)>);

impl Fleet {
    /// Replicas of this version for Leases of this namespace.
    pub(super) async fn stand(config: kube::Config, namespace: &str, version: &str, leases: &[String]) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (namespace, version, leases) = (namespace.to_owned(), version.to_owned(), leases.to_vec());
        let standing = runtime.spawn(async move {
            let elections = Elections::new(lease_client(config).unwrap(), namespace);
            let mut leaderships = Vec::new();
            for lease in leases {
                let elector = elections.coordinated(lease, &version).identity(format!("v{version}"));
                let campaign = elector.build().unwrap().start();
                leaderships.push(campaign.leadership());
                // Dropping it would stop it gracefully.
                std::mem::forget(campaign);
            }
            leaderships
        });
        let leaderships = standing.await.unwrap();
        Self { runtime: Some(runtime), leaderships }
    }

    /// Ends all of them at once. They release nothing.
    pub(super) fn crash(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.end();
    }
}

impl Latencies {
    /// Waits until a replica of `fleet` has led each Lease. The limit is `bound` after `since`, or after the last slow
    /// answer that `probe` observed.
    pub(super) async fn until_led(what: &str, fleet: &Fleet, since: Instant, bound: Duration, probe: &Probe) -> Self {
        let mut led: Vec<Option<Duration>> = vec![None; fleet.leaderships.len()];
        while led.contains(&None) {
            for (number, led) in led.iter_mut().enumerate() {
                if led.is_none() && fleet.leaderships[number].is_leader() {
                    *led = Some(since.elapsed());
                }
            }
            let faultless = since.max(probe.last_slow().unwrap_or(since)).elapsed();
            let is_in_time = faultless < bound && since.elapsed() < PATIENCE;
            assert!(is_in_time, "{what}: not within {bound:?}: {led:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let leases = fleet.leaderships.iter().map(|leadership| leadership.lease().to_owned());
        let latencies = Self(led.into_iter().flatten().zip(leases).collect());
        eprintln!("{what}: {latencies}");
        latencies
    }
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort();
        let (middle, (last, lease)) = (sorted[sorted.len() / 2].0.as_secs_f64(), &sorted[sorted.len() - 1]);
        write!(f, "median {middle:.2} s, longest {:.2} s ({lease}) of {}", last.as_secs_f64(), sorted.len())
    }
}
