//! Standing for a Lease as one replica: what `campaign` and every other command that holds a Lease have in common.

pub(crate) mod range;
pub(crate) mod snapshot;

use hustings_client::testing::MemoryBackend;
use hustings_client::{Elector, ElectorBuilder, Timing};
use tokio_util::sync::CancellationToken;

use crate::cli::{GlobalFlags, Hinted};
use crate::cluster::Cluster;

/// For which Lease to stand, as whom, and how.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Candidacy {
    /// The Lease.
    pub lease: String,
    /// The identity; without it the name of the pod.
    pub identity: Option<String>,
    /// The version of the component.
    pub binary_version: Option<String>,
    /// The version whose behaviour it shows.
    pub emulation_version: Option<String>,
    /// The strategy to be elected by.
    pub strategy: Option<String>,
    /// The priority with which the candidate is created.
    pub priority: Option<i32>,
    /// Whether to stand without a controller.
    pub direct: bool,
    /// Its preference, with `direct`.
    pub key: Option<i64>,
    /// Whether the candidates elect among themselves where no controller does.
    pub fallback: bool,
    /// Whether there is an election at all.
    pub leader_elect: bool,
    /// Whether a stop leaves the Lease to expire instead of releasing it.
    pub keep_on_stop: bool,
    /// Durations of the term.
    pub timing: Timing,
}

/// Where it stands.
#[derive(Clone)]
pub enum Stage {
    /// In a cluster.
    Cluster(Box<Cluster>),
    /// Nowhere, without an election: nothing is read or written, and the namespace is a part of the Lease's name.
    Nowhere {
        /// That namespace.
        namespace: String,
    },
}

impl Candidacy {
    /// Where it stands, by the command of this name. Without an election no cluster is needed.
    pub async fn stage(&self, flags: &GlobalFlags, command: &str) -> anyhow::Result<Stage> {
        if self.leader_elect {
            return Ok(Stage::Cluster(Box::new(Cluster::connect(flags, command).await?)));
        }
        Ok(Stage::Nowhere { namespace: flags.namespace.clone().unwrap_or_else(|| "default".to_owned()) })
    }

    /// Fails where the elector would try for ever, and wait for what a person has to do.
    pub async fn check(&self, stage: &Stage) -> Result<(), Hinted> {
        match stage {
            Stage::Cluster(cluster) if !self.direct && !self.fallback => cluster.knows_candidates().await,
            _ => Ok(()),
        }
    }

    /// An elector that stops in order when `shutdown` is cancelled.
    pub fn elector(&self, stage: &Stage, shutdown: &CancellationToken) -> Result<Elector, Hinted> {
        build(self.builder(stage, shutdown))
    }

    /// The same for whoever adds to it; see [`build`].
    pub fn builder(&self, stage: &Stage, shutdown: &CancellationToken) -> ElectorBuilder {
        let mut builder = match stage {
            Stage::Cluster(cluster) => Elector::builder(cluster.leases.clone(), &cluster.namespace, &self.lease),
            Stage::Nowhere { namespace } => Elector::on(MemoryBackend::new(), namespace, &self.lease),
        };
        builder = builder.enabled(self.leader_elect).timing(self.timing).fallback(self.fallback).shutdown(shutdown);
        builder = set(builder, self.identity.as_ref(), ElectorBuilder::identity);
        builder = set(builder, self.binary_version.as_ref(), ElectorBuilder::binary_version);
        builder = set(builder, self.emulation_version.as_ref(), ElectorBuilder::emulation_version);
        builder = set(builder, self.strategy.as_ref(), ElectorBuilder::strategy);
        builder = set(builder, self.priority, ElectorBuilder::priority);
        builder = set(builder, self.key, ElectorBuilder::key::<i64>);
        builder = if self.keep_on_stop { builder.keep_on_stop() } else { builder };
        // Whom nobody elects needs no version either.
        let stands = self.leader_elect || self.binary_version.is_some();
        if self.direct || !stands { builder.direct() } else { builder }
    }
}

/// The elector, or why there can be none.
pub fn build(builder: ElectorBuilder) -> Result<Elector, Hinted> {
    // Flags have been judged before; what is left comes from the environment and from the kubeconfig file.
    let hint = "give --identity and --namespace, or run in a pod";
    builder.build().map_err(|invalid| Hinted::new(invalid.to_string(), hint))
}

fn set<T>(
    builder: ElectorBuilder,
    value: Option<T>,
    setter: impl Fn(ElectorBuilder, T) -> ElectorBuilder,
) -> ElectorBuilder {
    match value {
        Some(value) => setter(builder, value),
        None => builder,
    }
}
