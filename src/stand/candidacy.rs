//! The common part of all commands that stand for a Lease: the configuration, the cluster and the elector.

mod flags;
mod key_file;
pub(crate) mod range;
pub(crate) mod snapshot;
pub(crate) mod succession;

use std::sync::Arc;

use hustings_client::testing::MemoryStore;
use hustings_client::{Elector, ElectorBuilder, Heartbeat, Key, Storage};
use tokio_util::sync::CancellationToken;

use crate::base::access::Access;
use crate::base::cluster::Cluster;
use crate::base::hint::Hinted;

pub use flags::Candidacy;
pub use key_file::KeyFile;

/// The connection of a candidacy.
#[derive(Clone)]
pub enum Connection {
    /// To a cluster.
    Cluster(Box<Cluster>),
    /// No connection: without an election the replica sends no request. The namespace only appears in the name of the
    /// Lease.
    NotNeeded {
        /// The namespace of the Lease.
        namespace: String,
    },
    /// To a store in memory, in the namespace `n`, by the clock of the store.
    #[cfg(test)]
    Memory(MemoryStore),
}

impl Candidacy {
    /// Connects `command` to its cluster, unless `stop` is cancelled. Without an election it needs none.
    ///
    /// # Errors
    /// Fails if the cluster configuration cannot be loaded, if the file with the key is missing or wrong, or if `stop` is
    /// cancelled.
    pub async fn connect(
        &self,
        access: &Access,
        command: &str,
        stop: &CancellationToken,
    ) -> anyhow::Result<Connection> {
        // A later elector of this process must not fail because of the file.
        self.key()?;
        if self.leader_elect {
            return Ok(Connection::Cluster(Box::new(Cluster::connect_until(access, command, Some(stop)).await?)));
        }
        Ok(Connection::NotNeeded { namespace: access.namespace.clone().unwrap_or_else(|| "default".to_owned()) })
    }

    /// Fails if the elector would retry for ever, because only a controller may elect and the CRD is not installed.
    pub async fn check(&self, connection: &Connection) -> Result<(), Hinted> {
        match connection {
            Connection::Cluster(cluster) if !self.direct && !self.fallback => cluster.knows_candidates().await,
            _ => Ok(()),
        }
    }

    /// Returns the builder of an elector that stops gracefully when `shutdown` is cancelled, and that does not prove this
    /// replica alive while `heartbeat` is silent. The caller may change the builder before it passes it to [`build`].
    ///
    /// # Errors
    /// Fails if the file with the key is missing or wrong.
    pub fn builder(
        &self,
        connection: &Connection,
        heartbeat: &Heartbeat,
        shutdown: &CancellationToken,
    ) -> Result<ElectorBuilder, Hinted> {
        let (storage, namespace) = (connection.storage(), connection.namespace());
        let mut builder = match &self.binary_version {
            Some(version) if !self.direct => {
                Elector::coordinated(storage, namespace, &self.lease, version).fallback(self.fallback)
            }
            // Without an election the replica needs no version.
            _ => Elector::direct(storage, namespace, &self.lease).key(self.key()?),
        };
        builder = builder.enabled(self.leader_elect).timing(self.timing).heartbeat(heartbeat).shutdown(shutdown);
        if self.keep_on_stop {
            builder = builder.keep_on_stop();
        }
        // Each of these sets what is given.
        builder = self.identity.iter().fold(builder, ElectorBuilder::identity);
        builder = self.emulation_version.iter().fold(builder, ElectorBuilder::emulation_version);
        builder = self.strategy.iter().fold(builder, ElectorBuilder::strategy);
        Ok(self.priority.into_iter().fold(builder, ElectorBuilder::priority))
    }

    /// The preference of this replica, with `direct`.
    fn key(&self) -> Result<Key, Hinted> {
        match (&self.key_file, self.key) {
            (Some(file), _) => file.key(),
            (None, Some(key)) => Ok(Key::from(key)),
            (None, None) => Ok(Key::default()),
        }
    }
}

/// Builds an elector from the settings of a candidacy.
///
/// # Errors
/// Fails with a hint if the identity or the namespace is missing or invalid. Flags were validated before, so a wrong value
/// comes from the environment or from the kubeconfig file.
pub fn build(builder: ElectorBuilder) -> Result<Elector, Hinted> {
    let hint = "pass --identity and --namespace, or run in a pod";
    builder.build().map_err(|invalid| Hinted::new(invalid.to_string(), hint))
}

impl Connection {
    fn storage(&self) -> Storage {
        match self {
            Self::Cluster(cluster) => cluster.leases.clone().into(),
            // It is never used.
            Self::NotNeeded { .. } => Arc::new(MemoryStore::new()).into(),
            #[cfg(test)]
            Self::Memory(store) => store.into(),
        }
    }

    fn namespace(&self) -> &str {
        match self {
            Self::Cluster(cluster) => &cluster.namespace,
            Self::NotNeeded { namespace } => namespace,
            #[cfg(test)]
            Self::Memory(_) => "n",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::{Args as _, Command, FromArgMatches as _};
    use hustings_client::{Campaign, Timing};
    use hustings_core::elector::Durations;
    use serde_json::json;

    use super::*;
    use crate::base::cluster::testing::{cluster, failure};

    /// A candidacy of these flags, without the checks of the command line.
    fn candidacy(flags: &[&str]) -> Candidacy {
        let line = ["hustings", "--lease=l", "--identity=a", "--binary-version=1.2"].iter().chain(flags);
        let matches = Candidacy::augment_args(Command::new("hustings")).try_get_matches_from(line).unwrap();
        Candidacy::from_arg_matches(&matches).unwrap()
    }

    fn start(candidacy: &Candidacy, connection: &Connection) -> Campaign {
        let heartbeat = Heartbeat::new();
        let builder = candidacy.builder(connection, &heartbeat, &CancellationToken::new()).unwrap();
        tokio::spawn(async move { heartbeat.keep_beating().await });
        build(builder).unwrap().start()
    }

    #[tokio::test]
    async fn a_missing_crd_is_an_error_only_for_a_candidate_that_may_not_fall_back() {
        for (flags, is_error) in [
            (&["--fallback=false"][..], true),
            (&["--fallback=true"], false),
            (&["--direct", "--fallback=false"], false),
        ] {
            let groups = json!({ "kind": "APIGroupList", "groups": [{ "name": "apps", "versions": [] }] });
            let (cluster, _) = cluster(move |request| {
                Some(if request.path == "/apis" { (200, groups.clone()) } else { failure(404) })
            });
            let connection = Connection::Cluster(Box::new(cluster));
            let checked = candidacy(flags).check(&connection).await;
            assert_eq!(checked.is_err(), is_error, "{flags:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_setting_of_a_candidate_reaches_its_elector() {
        let hour = Duration::from_hours(1);
        for fallback in [true, false] {
            let store = MemoryStore::new();
            let fallback_flag = format!("--fallback={fallback}");
            let flags =
                ["--emulation-version=1.1", "--strategy=OldestEmulationVersion", "--priority=3", &fallback_flag];
            let described = candidacy(&flags);
            let campaign = start(&described, &Connection::Memory(store.clone()));
            // No controller runs.
            let leads = tokio::time::timeout(hour, campaign.leadership().wait_until_leader()).await;
            assert_eq!(leads.is_ok(), fallback);
            let record = store.candidate("n", "a").unwrap();
            assert_eq!((&*record.binary_version, record.emulation_version.as_deref()), ("1.2", Some("1.1")));
            assert_eq!((record.strategy.as_deref(), record.priority), (Some("OldestEmulationVersion"), 3));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_direct_replica_has_its_identity_and_key_and_no_candidate() {
        let store = MemoryStore::new();
        let described = candidacy(&["--direct", "--key=7"]);
        let campaign = start(&described, &Connection::Memory(store.clone()));
        campaign.leadership().wait_until_leader().await.unwrap();
        let lease = store.lease("n", "l").unwrap();
        assert_eq!((lease.holder.as_deref(), lease.key), (Some("a"), Some(7)));
        assert_eq!(store.candidate("n", "a"), None);
    }

    #[tokio::test]
    async fn the_timing_of_the_flags_is_that_of_the_elector() {
        let durations =
            Durations { lease_duration_seconds: 60, renew_deadline: Duration::from_secs(50), ..Durations::default() };
        let slow = Candidacy { timing: Timing::new(durations).unwrap(), ..candidacy(&["--direct"]) };
        let connection = Connection::NotNeeded { namespace: "n".to_owned() };
        let campaign = start(&slow, &connection);
        campaign.leadership().wait_until_leader().await.unwrap();
        let remaining = campaign.leadership().remaining();
        assert!(remaining > Duration::from_secs(10), "{remaining:?}");
    }

    #[tokio::test]
    async fn without_an_election_the_lease_is_named_by_the_flags_and_needs_no_cluster() {
        for (namespace, expected) in [(Some("shop"), "shop/l"), (None, "default/l")] {
            let access = Access { namespace: namespace.map(str::to_owned), ..Access::default() };
            let candidacy = candidacy(&["--direct", "--leader-elect=false"]);
            let connection = candidacy.connect(&access, "campaign", &CancellationToken::new()).await.unwrap();
            assert_eq!(start(&candidacy, &connection).leadership().lease(), expected);
        }
    }
}
