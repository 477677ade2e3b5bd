//! The kubelet: the Pods of the replicas, and the ends of their containers that the API server shows.
//!
//! The kubelet reports an end at any time after it happened, or never. The API server shows only the last end. The
//! watches of Pods show it at once, since a late report has the same effect as a late watch.

use hustings_core::election::Observation;
use hustings_core::model::{ContainerEnd, ContainerRecord, PodRecord, WireTime};

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

    /// What a watch of Pods shows: the Pod of each replica whose container has ended.
    pub(super) fn ends(&self) -> impl Iterator<Item = Observation> {
        let pod = |(ends, uid): (&Ends, &&str)| {
            let containers = [ContainerRecord::ended(CONTAINER, [ContainerEnd::at(ends.reported?, "Error")])].into();
            let record = PodRecord { name: (*uid).into(), uid: (*uid).into(), containers, ..PodRecord::default() };
            Some(Observation::Pod { record: record.into() })
        };
        self.0.iter().zip(&IDENTITIES).filter_map(pod)
    }
}
