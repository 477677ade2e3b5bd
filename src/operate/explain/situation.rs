//! The situation of a Lease: the kind of its holder, and the verdicts of the pure decision on its candidates.

use std::collections::BTreeMap;
use std::time::Duration;

use hustings_core::election::{CandidateVerdict, Election, Observation};
use hustings_core::model::{CandidateKind, CandidateRecord, Hold, LeaseRecord, Observed, Pod, WireTime, reliance};
use hustings_lab::client_go;

use super::prospect::is_without_controller;
use super::scene::{HolderPod, Scene};
use crate::operate::status::{self, Assistance, AssistanceState, CandidateRow, LeaseRow, LeaseState};
use crate::predict::forecast::{self, Forecast, Objects};

/// A scene, with the facts derived from it.
pub(super) struct Situation<'a> {
    pub(super) scene: &'a Scene,
    /// The Lease as `hustings status` shows it.
    pub(super) row: LeaseRow,
    /// The election that has observed these objects once.
    pub(super) election: Election,
    pub(super) leadership: HolderKind,
    /// Why no candidate is elected.
    pub(super) hold: Option<Hold>,
    /// What the controller does now, while the holder lives.
    pub(super) present: Forecast,
}

/// The kind of holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HolderKind {
    /// Nobody: the Lease is missing, free, expired or on hold.
    None,
    /// A candidate that has not taken up its grant.
    Granted,
    /// An admissible candidate.
    Candidate(CandidateKind),
    /// A holder without an admissible candidate, although the Lease has candidates.
    Foreign,
    /// A replica of a group without candidates and controllers.
    Direct,
    /// An elector of another program, which a controller assists.
    Assisted,
    /// An elector of another program.
    Unknown,
}

impl<'a> Situation<'a> {
    pub(super) fn of(scene: &'a Scene) -> Self {
        let key = (scene.namespace.clone(), scene.name.clone());
        let observed: BTreeMap<_, _> =
            scene.observed.clone().map(|observed| (key.clone(), observed)).into_iter().collect();
        let leases = scene.lease.clone().into_iter().collect();
        let mut rows = status::rows(leases, scene.candidates.clone(), &observed, scene.now, true);
        let mut row = rows.pop().unwrap_or_else(|| status::missing(key, Vec::new(), scene.now));
        row.assist.clone_from(&scene.assist);
        let records = scene.candidates.iter().map(|candidate| &candidate.record);
        let mut election =
            status::election((&scene.namespace, &scene.name), scene.observed.as_ref(), records, scene.now);
        let of_candidate = if let HolderPod::Read(pod) = &scene.pod { pod.as_ref() } else { None };
        let of_assisted = scene.assist.as_ref().and_then(Assistance::pod_record);
        for pod in of_candidate.into_iter().chain(of_assisted) {
            election.observe(scene.now, Observation::Pod { record: pod.clone().into() });
        }
        let mut situation =
            Self { scene, row, election, leadership: HolderKind::None, hold: None, present: Forecast::default() };
        situation.leadership = situation.leadership();
        situation.present = situation.forecast(forecast::HolderForecast::Lives);
        situation.hold = situation.hold();
        situation
    }

    pub(super) fn record(&self) -> Option<&'a LeaseRecord> {
        self.scene.lease.as_ref().map(|lease| &lease.record)
    }

    pub(super) const fn wall(&self) -> WireTime {
        self.scene.now.wall
    }

    /// The holder that the Lease names.
    pub(super) fn holder(&self) -> Option<&str> {
        self.row.holder.as_deref()
    }

    /// The candidate that holds the Lease.
    pub(super) fn holding_candidate(&self) -> Option<&CandidateRow> {
        let holder = self.row.holder.as_ref()?;
        self.row.candidates.iter().find(|candidate| candidate.name == *holder)
    }

    /// Whether the election is one of native candidates: that of the holder, or all.
    pub(super) fn is_native(&self) -> bool {
        let mut deciding = self.row.candidates.iter();
        match self.holding_candidate() {
            Some(holder) => holder.kind == CandidateKind::Native,
            None => deciding.len() > 0 && deciding.all(|candidate| candidate.kind == CandidateKind::Native),
        }
    }

    /// How long the Lease lasts after its last change, for the replicas that would follow the holder.
    pub(super) fn lease_lasts(&self) -> Duration {
        let is_of_client_go = matches!(self.leadership, HolderKind::Assisted | HolderKind::Unknown);
        if let Some(record) = self.record().filter(|record| is_of_client_go && record.duration_seconds > 0) {
            return client_go::lasts(record);
        }
        let declared = self.record().map_or(Duration::ZERO, |record| reliance(record.declared_seconds()));
        self.scene.observed.as_ref().map_or(declared, Observed::lasts)
    }

    /// How often the holder usually renews the Lease.
    pub(super) fn usual_interval(&self) -> Duration {
        forecast::usual_interval(u32::try_from(self.lease_lasts().as_secs()).unwrap_or(u32::MAX))
    }

    /// How long ago the Lease last changed, as far as the observer knows.
    fn unchanged_for(&self) -> Duration {
        // Only a status can show that the Lease has expired; a single read cannot measure that.
        if self.row.state == LeaseState::Expired {
            return self.lease_lasts();
        }
        self.scene
            .observed
            .as_ref()
            .map_or(Duration::ZERO, |observed| self.scene.now.moment.since(observed.changed_at()))
    }

    /// Predicts what the controller does if the holder lives or dies.
    pub(super) fn forecast(&self, holder: forecast::HolderForecast) -> Forecast {
        let objects = Objects {
            key: (&self.scene.namespace, &self.scene.name),
            lease: self.record(),
            candidates: self.scene.candidates.iter().map(|candidate| &candidate.record).collect(),
            unchanged_for: self.unchanged_for(),
        };
        forecast::forecast(objects, holder, self.wall())
    }

    /// The record of a candidate.
    pub(super) fn candidate(&self, row: &CandidateRow) -> Option<&'a CandidateRecord> {
        self.scene.candidates.iter().map(|candidate| &candidate.record).find(|record| record.key() == row.key())
    }

    /// The verdict of the pure decision on a candidate.
    pub(super) fn verdict(&self, row: &CandidateRow) -> Option<&CandidateVerdict> {
        self.present.verdicts.iter().find(|verdict| verdict.candidate == row.key())
    }

    /// The Pod that a label leads to.
    pub(super) fn holder_pod(&self) -> Option<Pod> {
        let verdict = self.election.clone().decide(self.scene.now).lease;
        self.election.holder_pod(&verdict)
    }

    /// Why the Pod of the holder could not be read, if it has one.
    pub(super) fn unread_pod(&self) -> Option<&str> {
        let of_candidate = if let HolderPod::Unread(why) = &self.scene.pod { Some(why) } else { None };
        let is_unread = |found: &&Assistance| found.state == AssistanceState::Unknown && found.pod.is_some();
        of_candidate.or_else(|| self.assistance().filter(is_unread).map(|unread| &unread.reason)).map(String::as_str)
    }

    /// What is known of the holder, if a controller assists it.
    pub(super) fn assistance(&self) -> Option<&Assistance> {
        self.row.assist.as_ref().filter(|assist| assist.state != AssistanceState::NoEffect)
    }

    fn leadership(&self) -> HolderKind {
        match self.row.state {
            LeaseState::Granted => HolderKind::Granted,
            LeaseState::Held => match self.holding_candidate() {
                Some(candidate) if candidate.rank.is_some() => HolderKind::Candidate(candidate.kind),
                _ if !self.row.candidates.is_empty() => HolderKind::Foreign,
                _ if self.assistance().is_some() => HolderKind::Assisted,
                _ if self.row.token.is_some() => HolderKind::Direct,
                _ => HolderKind::Unknown,
            },
            LeaseState::Expired
            | LeaseState::Unheld
            | LeaseState::NoCandidate
            | LeaseState::Hold
            | LeaseState::Missing => HolderKind::None,
        }
    }

    /// Why no candidate is elected: a pause, a third party's strategy, or a disagreement.
    fn hold(&self) -> Option<Hold> {
        use hustings_core::election::{Ineligible, Reason};
        let record = self.record();
        let pause = record.and_then(|record| record.pause(self.wall()));
        // Only a controller ends a pause.
        let stands = || Hold::read(record?.hold.as_deref()).filter(|_| record.is_some_and(LeaseRecord::is_paused));
        let pause = pause.or_else(|| stands().filter(|_| is_without_controller(self)));
        pause.or_else(|| {
            self.present.verdicts.iter().find_map(|verdict| match &verdict.reason {
                Reason::OnHold(hold) | Reason::HolderLeftAlone(hold) | Reason::Ineligible(Ineligible::OnHold(hold)) => {
                    Some(hold.clone())
                }
                _ => None,
            })
        })
    }
}
