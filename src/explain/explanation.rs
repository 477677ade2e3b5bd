//! The explanation of one Lease, as a value. [`explain`] makes it from the observations; `render` prints it.

use std::time::Duration;

use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_core::model::{CandidateKind, Now, Observed, PodRecord};
use serde::Serialize;

use super::situation::Situation;
use super::{acts, candidates, controllers, leader, prospect, waits};
use crate::status::{LeaseRow, LeaseState, api_group};

/// One process's observations of one Lease, until `now`.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The namespace.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The Lease; `None` if it does not exist.
    pub lease: Option<ReadLease>,
    /// Its candidates, of both APIs.
    pub candidates: Vec<ReadCandidate>,
    /// The Lease, with the local time of its last observed change.
    pub observed: Option<Observed>,
    /// Whether the holder renewed the Lease while the process watched.
    pub has_renewed: bool,
    /// How long the process watched the Lease.
    pub watched_for: Duration,
    /// The controllers.
    pub controllers: Controllers,
    /// The Pod of the holder.
    pub pod: HolderPod,
    /// The clocks of the observer.
    pub now: Now,
}

/// The controllers of the cluster, as far as the observer knows them.
#[derive(Clone, Debug)]
pub enum Controllers {
    /// The observer could not search for them, for this reason.
    Unknown(String),
    /// All controllers that the observer found.
    Found(Vec<Controller>),
}

/// One installation of the controller.
#[derive(Clone, Debug, Default)]
pub struct Controller {
    /// Its kind and place, such as `Deployment hustings in namespace hustings-system`.
    pub place: String,
    /// The numbers of available and of wanted replicas; `None` if they are unknown.
    pub available: Option<(i32, i32)>,
    /// Its flags; `None` if they are unknown.
    pub flags: Option<ControllerFlags>,
}

/// The flags of a controller that concern one Lease.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControllerFlags {
    /// Whether it elects in the namespace of the Lease.
    pub elects_here: bool,
    /// Whether it elects native candidates.
    pub elects_native: bool,
    /// Whether the end of a holder's container counts as evidence.
    pub evidence: bool,
}

/// The Pod of the holder.
#[derive(Clone, Debug, Default)]
pub enum HolderPod {
    /// No object names it.
    #[default]
    Unnamed,
    /// The observer may not read it, or the read failed, for this reason.
    Unread(String),
    /// The Pod; `None` if it does not exist.
    Read(Option<PodRecord>),
}

/// The explanation of one Lease. Every text is a plain sentence, or several.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The namespace.
    pub namespace: String,
    /// The name of the Lease.
    pub lease: String,
    /// The state, as `hustings status` shows it.
    pub state: LeaseState,
    /// The holder that the Lease names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Which candidate leads, since when, and why.
    pub leader: Vec<String>,
    /// The candidates, best first.
    pub candidates: Vec<CandidateNote>,
    /// What would happen if the holder died now; without a holder, what happens next.
    pub prospect: Prospect,
    /// The timers that are running.
    pub waits: Vec<Wait>,
    /// The acts of administrators that are in force.
    pub acts: Vec<String>,
    /// The controllers.
    pub controllers: Vec<String>,
}

/// A candidate, and why it does or does not lead.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateNote {
    /// Its place in the order, from 1; `None` if it is not admissible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// Its name.
    pub name: String,
    /// The API of its LeaseCandidate.
    #[serde(rename = "apiGroup", serialize_with = "api_group")]
    pub kind: CandidateKind,
    /// Its versions and its priority.
    pub claims: String,
    /// Its state; `None` if no controller has written one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'static str>,
    /// Why it does or does not lead.
    pub reason: String,
}

/// A prediction, made by the controller's own decision in virtual time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prospect {
    /// The holder whose death is assumed; `None` if the Lease has no holder to die.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead: Option<String>,
    /// The candidate that would get the Lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successor: Option<String>,
    /// The longest time until then, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_seconds: Option<f64>,
    /// The course of events.
    pub sentences: Vec<String>,
}

/// Something that a process waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// The owner of the timer: `controller`, `holder` or `candidates`.
    pub of: &'static str,
    /// The name of the timer, as in the logs and in the source code.
    pub timer: &'static str,
    /// The longest time until it ends, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_seconds: Option<f64>,
    /// The wall-clock time at which it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// What happens then.
    pub meaning: String,
}

/// Explains a Lease. The result depends on nothing but the scene.
pub fn explain(scene: &Scene) -> Explanation {
    let situation = Situation::of(scene);
    let prospect = prospect::prospect(&situation);
    let LeaseRow { state, holder, .. } = &situation.row;
    Explanation {
        namespace: scene.namespace.clone(),
        lease: scene.name.clone(),
        state: *state,
        holder: holder.clone(),
        leader: leader::sentences(&situation),
        candidates: candidates::notes(&situation),
        prospect,
        waits: waits::waits(&situation),
        acts: acts::sentences(&situation),
        controllers: controllers::sentences(&situation),
    }
}
