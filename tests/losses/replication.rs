//! Three members of etcd and two API servers, of which one at a time dies, freezes, or is cut off, while holders lead.
//! That must end no term of a healthy holder.
//!
//! Clients use server 0, and server 0 uses member 0. Where the fault takes that path away from them, the load balancer
//! leads them to server 1 a while later, as one does that checks health every few seconds.

use std::time::Duration;

use hustings_controlplane::{ControlPlane, Stale};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::ListParams;
use tokio::time::{Instant, sleep, timeout};

use super::outages::suffer;
use super::stage::{Group, Stage};
use crate::replica::until;

/// A request that takes longer is repeated.
const READ_LIMIT: Duration = Duration::from_secs(1);

/// What happens, and which member of etcd leads at that time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) fault: Fault,
    pub(crate) leader: usize,
}

/// A fault of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is killed, and restarted in the end.
    Killed(Part),
    /// It is frozen (SIGSTOP), and resumes.
    Frozen(Part),
    /// It is cut off: a server from etcd, and a member from the other members.
    CutOff(Part),
    /// The load balancer leads clients to the other server. Their open connections stay, or become stale.
    Switched(Option<Stale>),
    /// The leadership of etcd moves to this member.
    LeaderMoved(usize),
}

/// An API server or a member of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Server(usize),
    Member(usize),
}

/// Every part by every fault.
pub(crate) fn all() -> Vec<Scene> {
    let parts = [Part::Server(0), Part::Server(1), Part::Member(0), Part::Member(1), Part::Member(2)];
    let faults = parts.into_iter().flat_map(|part| [Fault::Killed(part), Fault::Frozen(part), Fault::CutOff(part)]);
    let switches = [None, Some(Stale::Resets), Some(Stale::Swallows)].map(Fault::Switched);
    let moves = [1, 2].map(Fault::LeaderMoved);
    let scenes = faults.flat_map(|fault| {
        // Behind the clients, and elsewhere.
        let leaders: &[usize] = if matches!(fault.part(), Some(Part::Member(_))) { &[0, 1, 2] } else { &[0] };
        leaders.iter().map(move |leader| Scene { fault, leader: *leader })
    });
    scenes.chain(switches.into_iter().chain(moves).map(|fault| Scene { fault, leader: 0 })).collect()
}

/// Plays a scene, and fails if it ended a term. Returns the longest time that clients had no server.
pub(crate) async fn survive(stage: &Stage, groups: &[Group], scene: Scene, away: Duration) -> Duration {
    scene.prepare(&stage.plane).await;
    let mut without = Duration::ZERO;
    let seen = suffer(stage, groups, async { without = scene.play(&stage.plane, away).await }).await;
    for (mode, times, seen) in seen {
        println!("{scene:?} {mode:?}: {without:.1?} without a server, {} of {} terms kept", seen.kept, seen.terms);
        assert!(without < times.harmless(), "too slow a machine: {without:?}");
        assert_eq!(seen.kept, seen.terms, "{scene:?} {mode:?}: a term was lost: {seen:?}");
    }
    without
}

impl Fault {
    fn part(self) -> Option<Part> {
        match self {
            Self::Killed(part) | Self::Frozen(part) | Self::CutOff(part) => Some(part),
            Self::Switched(_) | Self::LeaderMoved(_) => None,
        }
    }
}

impl Part {
    /// Whether the clients' requests go through it.
    fn is_used(self) -> bool {
        matches!(self, Self::Server(0) | Self::Member(0))
    }
}

impl Scene {
    /// Moves the leadership of etcd to where the scene has it.
    async fn prepare(self, plane: &ControlPlane) {
        lead(plane, self.leader).await;
    }

    /// Plays the fault. Returns how long clients had no server.
    async fn play(self, plane: &ControlPlane, away: Duration) -> Duration {
        let began = Instant::now();
        let daemon = |part| match part {
            Part::Server(number) => plane.server(number),
            Part::Member(number) => plane.member(number),
        };
        match self.fault {
            Fault::Killed(part) => daemon(part).kill().unwrap(),
            Fault::Frozen(part) => daemon(part).pause().unwrap(),
            Fault::CutOff(Part::Server(number)) => plane.partition_server(number).unwrap(),
            Fault::CutOff(Part::Member(number)) => plane.partition_member(number).unwrap(),
            Fault::Switched(None) => plane.switch_to(1).unwrap(),
            Fault::Switched(Some(stale)) => plane.fail_over_to(1, stale).unwrap(),
            Fault::LeaderMoved(member) => lead(plane, member).await,
        }
        sleep(away).await;
        let is_frozen = matches!(self.fault, Fault::Frozen(_));
        if let Some(part) = self.fault.part() {
            if is_frozen {
                daemon(part).resume().unwrap();
            } else if part.is_used() {
                let is_killed = matches!(self.fault, Fault::Killed(_));
                plane.fail_over_to(1, if is_killed { Stale::Resets } else { Stale::Swallows }).unwrap();
            }
        }
        served(plane).await;
        let without = if self.fault.part().is_some_and(Part::is_used) { began.elapsed() } else { Duration::ZERO };
        // The terms continue without that part.
        if !is_frozen {
            sleep(away).await;
        }
        plane.heal().unwrap();
        if let Fault::Killed(part) = self.fault {
            daemon(part).restart().await.unwrap();
        }
        plane.wait_ready().await.unwrap();
        plane.switch_to(0).unwrap();
        without
    }
}

/// Waits until clients have a server that reads from etcd. So the scene knows a machine that stalls from a lost term.
async fn served(plane: &ControlPlane) {
    let leases = Api::<Lease>::all(plane.admin());
    let read = async || timeout(READ_LIMIT, leases.list(&ListParams::default().limit(1))).await.ok()?.ok().map(drop);
    until("clients have a server", String::new, read).await;
}

/// Makes this member of etcd lead. A member that has just started must catch up first.
async fn lead(plane: &ControlPlane, member: usize) {
    let leads = async || {
        plane.move_etcd_leader(member).await.ok()?;
        (plane.etcd_leader().await.ok()? == member).then_some(())
    };
    until(&format!("member {member} of etcd leads"), String::new, leads).await;
}
