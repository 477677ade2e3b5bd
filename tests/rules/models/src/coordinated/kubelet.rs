//! The kubelet: the Pods of the replicas, and the ends of their containers that the API server shows.
//!
//! The kubelet reports an end at any time after it happened, or never. The API server shows only the last end.

use hustings_core::model::{ContainerEnd, PodRecord, WireTime};

use super::{IDENTITIES, TICK_MICROS};
use crate::process::Clock;

/// The container of every replica.
pub(super) const CONTAINER: &str = "main";

/// The Pods, in the order of the replicas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kubelet(Vec<Ends>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Ends {
    unreported: Option<WireTime>,
    reported: Option<WireTime>,
}

impl Kubelet {
    pub(super) fn new(replicas: usize) -> Self {
        Self(vec![Ends::default(); replicas])
    }

    /// The container of a replica ends. The reported time is truncated to seconds, so it precedes all later events of
    /// this tick.
    pub(super) fn end(&mut self, who: usize, ticks: i64) {
        let now = Clock { fast_ppm: 0, tick_micros: TICK_MICROS }.at(ticks).wall;
        // An end in the first tick is never reported: the clocks of the models start there.
        self.0[who].unreported = (ticks > 0).then(|| WireTime::from_micros(now.as_micros() - 1));
    }

    pub(super) fn has_unreported(&self, who: usize) -> bool {
        self.0[who].unreported.is_some()
    }

    /// The API server shows the end from now on.
    pub(super) fn report(&mut self, who: usize) {
        let ends = &mut self.0[who];
        ends.reported = ends.unreported.take().or(ends.reported);
    }

    /// The Pod of a replica.
    pub(super) fn pod(&self, who: usize) -> PodRecord {
        let end = |finished_at| ContainerEnd {
            container: CONTAINER.to_owned(),
            finished_at: Some(finished_at),
            reason: "Error".to_owned(),
        };
        PodRecord {
            uid: IDENTITIES[who].to_owned(),
            config_hash: None,
            node: None,
            shares_processes: false,
            ends: self.0[who].reported.map(end).into_iter().collect(),
        }
    }
}
