//! Three members of etcd and two API servers. One at a time dies, freezes, or is cut off, while holders lead. That must
//! end no term of a healthy holder.
//!
//! Clients use server 0, and server 0 uses member 0. Where the fault cuts that path, the load balancer sends them to
//! server 1 a while later, like one that checks health every few seconds.

use std::time::Duration;

use hustings_controlplane::{ControlPlane, Stale};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};

use super::native::{self, NativeGroup};
use super::outages::suffer;
use super::stage::{Group, Stage};
use crate::replica::until;

/// A request that takes longer is repeated.
const READ_LIMIT: Duration = Duration::from_secs(1);
/// The pause between two reads.
const READ_PAUSE: Duration = Duration::from_millis(100);

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
    /// The load balancer switches clients to the other server. Their open connections stay, or become stale.
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

/// Every fault of every part.
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

/// The result of a scene.
pub(crate) struct Outcome {
    /// The longest time without an answer to a client.
    pub(crate) without: Duration,
    /// Terms that lasted, and all terms.
    pub(crate) kept: [usize; 2],
    /// The same of native holders.
    pub(crate) native: [usize; 2],
    /// Clients had no server for so long that a term may end: the machine is too slow, and the scene proves nothing.
    pub(crate) is_stalled: bool,
}

/// Plays a scene. Fails if it ended a term, except on a machine that is too slow, or if it made two leaders.
pub(crate) async fn survive(
    stage: &Stage,
    groups: &[Group],
    natives: &[NativeGroup],
    scene: Scene,
    away: Duration,
) -> Outcome {
    scene.prepare(&stage.plane).await;
    let mut without = Duration::ZERO;
    let play = async { without = longest_silence(&stage.plane, scene.play(&stage.plane, away)).await };
    let mut native = [0, natives.len()];
    let play = async { native[0] = native::kept(stage, natives, play).await };
    let seen = Box::pin(suffer(stage, groups, play)).await;
    let is_stalled = groups.iter().any(|group| without >= group.times.harmless());
    let mut kept = [0, 0];
    for (mode, _, seen) in seen {
        println!("{scene:?} {mode:?}: {without:.1?} without a server, {} of {} terms kept", seen.kept, seen.terms);
        assert!(is_stalled || seen.kept == seen.terms, "{scene:?} {mode:?}: a term was lost: {seen:?}");
        kept = [kept[0] + seen.kept, kept[1] + seen.terms];
    }
    println!("{scene:?} native: {} of {} terms kept", native[0], native[1]);
    let must_last = !is_stalled && !scene.fault.leaves_stale_connections();
    assert!(!must_last || native[0] == native[1], "{scene:?}: a native term was lost");
    Outcome { without, kept, native, is_stalled }
}

impl Fault {
    /// Whether connections of clients stay open and never answer again. client-go keeps using them past its deadline.
    fn leaves_stale_connections(self) -> bool {
        match self {
            Self::Frozen(part) | Self::CutOff(part) => part.is_used(),
            Self::Switched(stale) => stale == Some(Stale::Swallows),
            Self::Killed(_) | Self::LeaderMoved(_) => false,
        }
    }

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

    async fn play(self, plane: &ControlPlane, away: Duration) {
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
    }
}

/// Waits until clients have a server that reads from etcd.
async fn served(plane: &ControlPlane) {
    let client = plane.admin();
    until("clients have a server", String::new, async || read(&client).await).await;
}

/// The longest time without an answered read while a scene is played. It distinguishes a machine that stalls from a
/// lost term.
async fn longest_silence(plane: &ControlPlane, scene: impl Future<Output = ()>) -> Duration {
    let client = plane.admin();
    let (mut longest, mut answered) = (Duration::ZERO, Instant::now());
    let reads = async {
        loop {
            if read(&client).await.is_some() {
                longest = longest.max(answered.elapsed());
                answered = Instant::now();
            }
            sleep(READ_PAUSE).await;
        }
    };
    tokio::select! {
        () = scene => {}
        () = reads => {}
    }
    longest.max(answered.elapsed())
}

/// Whether a server answers from etcd.
async fn read(client: &Client) -> Option<()> {
    let leases = Api::<Lease>::all(client.clone());
    timeout(READ_LIMIT, leases.list(&ListParams::default().limit(1))).await.ok()?.ok().map(drop)
}

/// Makes this member of etcd lead. A member that has just started must catch up first.
async fn lead(plane: &ControlPlane, member: usize) {
    let leads = async || {
        plane.move_etcd_leader(member).await.ok()?;
        (plane.etcd_leader().await.ok()? == member).then_some(())
    };
    until(&format!("member {member} of etcd leads"), String::new, leads).await;
}
