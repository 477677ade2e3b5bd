//! Real electors, one for each of the ordinary Leases, that crash together.

use std::time::{Duration, Instant};

use hustings_client::{Elections, Leadership, lease_client};
use tokio::runtime::{Builder, Runtime};

/// The replicas of one version, in a runtime of their own: they share one watch, and no instruction of theirs runs after
/// the crash.
pub(super) struct Fleet {
    runtime: Option<Runtime>,
    leaderships: Vec<Leadership>,
}

/// How long the Leases took, each from the same instant.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Vec<Duration>);

impl Fleet {
    /// Replicas of this version for Leases of this namespace.
    pub(super) async fn stand(config: kube::Config, namespace: &str, version: &str, leases: &[String]) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (namespace, version, leases) = (namespace.to_owned(), version.to_owned(), leases.to_vec());
        let standing = runtime.spawn(async move {
            let elections = Elections::new(lease_client(config).unwrap(), namespace);
            let mut leaderships = Vec::new();
            for lease in leases {
                let elector = elections.builder(lease).identity(format!("v{version}")).binary_version(&version);
                let campaign = elector.build().unwrap().start();
                leaderships.push(campaign.leadership());
                // It would stop in order if it were dropped.
                std::mem::forget(campaign);
            }
            leaderships
        });
        let leaderships = standing.await.unwrap();
        Self { runtime: Some(runtime), leaderships }
    }

    /// Ends all of them where they are. Nothing is released.
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
    /// Waits until each Lease has been led by a replica of `fleet`, `bound` after `since` at the latest.
    pub(super) async fn until_led(what: &str, fleet: &Fleet, since: Instant, bound: Duration) -> Self {
        let mut led: Vec<Option<Duration>> = vec![None; fleet.leaderships.len()];
        while led.contains(&None) {
            for (number, led) in led.iter_mut().enumerate() {
                if led.is_none() && fleet.leaderships[number].is_leader() {
                    *led = Some(since.elapsed());
                }
            }
            assert!(since.elapsed() < bound, "{what}: not within {bound:?}: {led:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let latencies = Self(led.into_iter().flatten().collect());
        eprintln!("{what}: {latencies}");
        latencies
    }
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort();
        let (middle, last) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
        write!(f, "median {:.2} s, longest {:.2} s of {}", middle.as_secs_f64(), last.as_secs_f64(), sorted.len())
    }
}
