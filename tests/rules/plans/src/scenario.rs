//! The scenarios: the steps of the demo one by one, and some that the demo does not show.
//!
//! A script waits only for what must happen in any case, and never for a certain leader. The end of the run is judged.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use hustings_client::api::{MicroTime, ReadLease};
use hustings_client::clock::SystemClock;
use hustings_client::model::{CandidateState, LeaseView, SessionMark};
use serde_json::{Value, json};

use crate::cast::{LEASE, Stands};
use crate::stage::Stage;

const STRATEGY: &str = "example.com/Mine";

const OLD: Stands = version("1.30.0", "1.30.0");
const OLDEST: Stands = version("1.31.4", "1.31.0");
const SECOND: Stands = version("1.32.0", "1.31.0");
const THIRD: Stands = version("1.32.0", "1.32.0");
const NEW: Stands = version("1.33.0", "1.33.0");

/// One script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scenario {
    /// Without candidates: one replica leads and stops, and its successor crashes.
    Direct,
    /// Without candidates: a replica with a higher key joins.
    Preference,
    /// Three candidates stand together, two controllers elect.
    Oldest,
    /// The holder is killed.
    Crash,
    /// The holder is stopped.
    Stop,
    /// A better candidate joins.
    Joins,
    /// All are replaced, one after the other, by a newer version.
    Upgrade,
    /// The leading controller is killed, and then the holder.
    ControllerKilled,
    /// There is no controller.
    Fallback,
    /// A third party's strategy: the controllers leave the Lease to it.
    ThirdParty,
    /// A third party deletes the Lease of a live holder.
    LeaseDeleted,
    /// A better candidate joins and stops again. Every replica and controller is a process behind an HTTP proxy.
    Programs,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Direct,
        Self::Preference,
        Self::Oldest,
        Self::Crash,
        Self::Stop,
        Self::Joins,
        Self::Upgrade,
        Self::ControllerKilled,
        Self::Fallback,
        Self::ThirdParty,
        Self::LeaseDeleted,
        Self::Programs,
    ];

    /// Its name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Preference => "preference",
            Self::Oldest => "oldest",
            Self::Crash => "crash",
            Self::Stop => "stop",
            Self::Joins => "joins",
            Self::Upgrade => "upgrade",
            Self::ControllerKilled => "controller-killed",
            Self::Fallback => "fallback",
            Self::ThirdParty => "third-party",
            Self::LeaseDeleted => "lease-deleted",
            Self::Programs => "programs",
        }
    }

    /// Whether any of the candidates may lead in the end. Without a controller no candidate replaces a live holder
    /// because of its version, and a third party grants the Lease once.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Fallback)
    }

    /// Whether it has candidates, so that there is an election.
    pub const fn has_candidates(self) -> bool {
        !matches!(self, Self::Direct | Self::Preference)
    }

    /// Whether every replica and controller in it is a process of its own.
    pub const fn is_of_programs(self) -> bool {
        matches!(self, Self::Programs)
    }

    /// The state before any fault.
    pub async fn set_up(self, stage: &Stage) -> Result<()> {
        match self {
            Self::Direct | Self::Fallback => {}
            Self::Preference => {
                stage.start("a", Stands::Preferring(1))?;
                stage.a_replica_leads().await?;
            }
            Self::Oldest | Self::ControllerKilled => {
                stage.start("controller-0", Stands::Controller)?;
                stage.some_controller_leads().await?;
                stage.start("controller-1", Stands::Controller)?;
            }
            Self::Crash
            | Self::Stop
            | Self::Joins
            | Self::Upgrade
            | Self::ThirdParty
            | Self::LeaseDeleted
            | Self::Programs => {
                stage.start("controller-0", Stands::Controller)?;
                stage.some_controller_leads().await?;
            }
        }
        match self {
            Self::Crash | Self::Stop | Self::ControllerKilled | Self::LeaseDeleted => {
                three(stage).await?;
            }
            Self::Joins | Self::Programs => {
                stage.start("a", THIRD)?;
                stage.start("c", SECOND)?;
                settled(stage, &["a", "c"]).await?;
            }
            Self::Upgrade => {
                for role in ["d", "e"] {
                    stage.start(role, OLD)?;
                }
                settled(stage, &["d", "e"]).await?;
            }
            Self::Direct | Self::Preference | Self::Oldest | Self::Fallback | Self::ThirdParty => {}
        }
        Ok(())
    }

    /// The steps of the scenario, in which faults happen.
    pub async fn act(self, stage: &Stage) -> Result<()> {
        match self {
            Self::Direct => {
                stage.start("a", Stands::Direct)?;
                stage.a_replica_leads().await?;
                stage.start("b", Stands::Direct)?;
                stage.stop("a").await?;
                stage.a_replica_leads().await?;
                stage.start("c", Stands::Direct)?;
                stage.kill("b");
            }
            Self::Preference => stage.start("b", Stands::Preferring(2))?,
            Self::Crash => stage.kill("b"),
            Self::Stop => stage.stop("b").await?,
            Self::Joins => stage.start("d", OLD)?,
            Self::Upgrade => {
                for (old, new) in [("d", "g"), ("e", "h")] {
                    stage.start(new, NEW)?;
                    stage.is_judged(new).await?;
                    stage.stop(old).await?;
                    stage.a_replica_leads().await?;
                }
            }
            Self::ControllerKilled => {
                stage.kill("controller-0");
                stage.some_controller_leads().await?;
                stage.kill("b");
            }
            Self::Oldest | Self::Fallback => {
                stage.start("a", THIRD)?;
                stage.start("b", OLDEST)?;
                stage.start("c", SECOND)?;
            }
            Self::ThirdParty => {
                stage.start("a", Stands::ByStrategy(STRATEGY))?;
                stage.attend(third_party(stage.clone()));
            }
            Self::LeaseDeleted => {
                stage.delete_lease().await?;
                stage.lease_is("the Lease is back", |lease| lease.record.holder.is_some()).await?;
            }
            Self::Programs => {
                stage.start("d", OLD)?;
                stage.is_judged("d").await?;
                stage.stop("d").await?;
            }
        }
        stage.a_replica_leads().await.context("after the act")
    }
}

impl FromStr for Scenario {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.as_str() == text).with_context(|| {
            let names: Vec<_> = Self::ALL.iter().map(|scenario| scenario.as_str()).collect();
            format!("there is no scenario {text}: there are {}", names.join(", "))
        })
    }
}

const fn version(binary: &'static str, emulation: &'static str) -> Stands {
    Stands::As { binary, emulation }
}

/// Three candidates, the oldest of which leads.
async fn three(stage: &Stage) -> Result<()> {
    stage.start("a", THIRD)?;
    stage.start("b", OLDEST)?;
    stage.start("c", SECOND)?;
    settled(stage, &["a", "b", "c"]).await?;
    stage.lease_is("b leads", |lease| lease.record.holder.as_deref() == Some("b")).await
}

/// Every candidate has a status, and the leader's status is Holder.
async fn settled(stage: &Stage, roles: &[&str]) -> Result<()> {
    for role in roles {
        stage.is_judged(role).await?;
    }
    stage.a_replica_leads().await?;
    stage.lease_is("the Lease is held", |lease| matches!(lease.record.session, SessionMark::Term(_))).await?;
    stage
        .until("the status says who holds", async || {
            let holder = stage.lease(LEASE).await?.and_then(|lease| lease.record.holder);
            Ok(stage.candidates().await?.iter().any(|candidate| {
                let says = candidate.record.status.state == Some(CandidateState::Holder);
                says && Some(&candidate.record.name) == holder.as_ref()
            }))
        })
        .await
}

/// Elects `a` whenever the Lease is on hold for it, and free by its own observation.
async fn third_party(stage: Stage) {
    let clock = SystemClock::shared();
    let mut view = LeaseView::new();
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let sent = clock.now();
        let Ok(Some(lease)) = stage.lease(LEASE).await else { continue };
        view.observe(lease.record.clone(), Some(sent), clock.now());
        let is_free = view.free_from().is_some_and(|free_from| clock.now() >= free_from);
        if lease.record.hold.is_some() && is_free {
            // It tries again after a failure.
            drop(stage.patch_lease(grant(&lease)).await);
        }
    }
}

/// The write with which a third party grants the Lease to `a`.
fn grant(lease: &ReadLease) -> Value {
    let now = MicroTime(SystemClock::shared().wall());
    json!({
        "metadata": { "resourceVersion": lease.record.resource_version.to_string(), "annotations": { "hustings.io/session": "open", "hustings.io/hold": null } },
        "spec": {
            "holderIdentity": "a",
            "leaseDurationSeconds": 5,
            "leaseTransitions": lease.record.transitions + 1,
            "acquireTime": now,
            "renewTime": now,
        },
    })
}
