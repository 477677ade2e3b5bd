//! Twenty ordinary elections, with hostile objects alongside and within them.
//!
//! Half of the Leases lose their holders while a better candidate joins for each of the others. "Not delayed" means L1
//! and L2. Once faults have stopped, a live candidate leads within 50 s, and one that is better than the holder within
//! 70 s. This test cannot prevent one fault, a busy machine. A probe counts as such a fault if its write is not
//! answered, and reported by a watch, within a second.
//!
//! These variables make the test larger:
//!
//! - `HOSTILE_OBJECTS` (60): the generated objects of each kind, in addition to the hand-written ones
//! - `HOSTILE_ROUNDS` (1): with two or more, a round without hostile objects is measured, too
//! - `HOSTILE_CHURN` (50): the writes per second
//! - `HOSTILE_MEGABYTES` (0): the Leases whose holders have a name of a megabyte

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hustings_controlplane::ControlPlane;

use super::corpus::{Hostile, Kind, by_hand, generated};
use super::fleet::{Fleet, Latencies};
use super::load::{Applied, Churn, apply};
use super::probe::Probe;
use super::rivals::Liars;
use crate::controller::support::{Controller, eventually, install_crd};

/// The longest time until a live candidate leads (L1).
const LED: Duration = Duration::from_secs(50);
/// The longest time until the best candidate leads (L2).
const BEST_LEADS: Duration = Duration::from_secs(70);
const LEASES: usize = 20;
/// How many Leases of a half have a candidate that answers pings and takes no grant up.
const LIED_ABOUT: usize = 5;
/// The most memory that the controller may ever use.
const MOST_MEMORY_KIB: u64 = 256 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_objects_delay_no_ordinary_election_beyond_its_bound() {
    let (objects, rounds) = (setting("HOSTILE_OBJECTS", 60), setting("HOSTILE_ROUNDS", 1));
    let per_second = u32::try_from(setting("HOSTILE_CHURN", 50)).unwrap();
    let plane = ControlPlane::builder().start().await.unwrap();
    let client = plane.admin();
    install_crd(&client).await;
    let ordinary = plane.create_namespace("ordinary").await.unwrap();
    let apart = plane.create_namespace("apart").await.unwrap();
    let controller = Controller::start(&plane, &plane.kubeconfig(), &["-n", "default"]).await.ready().await;
    controller.leads().await;
    let pid = controller.process.pid();
    let probe = Probe::start(client.clone()).await;

    let leases: Vec<_> = (0..LEASES).map(|number| format!("work-{number}")).collect();
    let stand = async |version: &str, leases: &[String]| Fleet::stand(plane.config(), &ordinary, version, leases).await;
    let mut version = (0..99).rev().map(|minor| format!("1.{minor}.0"));
    let mut next = || version.next().unwrap();
    let (mut losing, mut gaining) = leases.split_at(LEASES / 2);

    let since = Instant::now();
    let version = next();
    let (mut standby, mut held) = (stand(&version, losing).await, stand(&version, gaining).await);
    Latencies::until_led("first election", &standby, since, LED, &probe).await;
    Latencies::until_led("first election", &held, since, LED, &probe).await;
    let since = Instant::now();
    let mut better = stand(&next(), losing).await;
    Latencies::until_led("a better one joins, nothing hostile", &better, since, BEST_LEADS, &probe).await;

    // The holders of the first half crash, while better candidates join for the second half.
    let mut round = async |what: &str| {
        let since = Instant::now();
        let joining = stand(&next(), gaining).await;
        std::mem::replace(&mut better, joining).crash();
        let (crash, join) = (format!("a crash, {what}"), format!("a better one joins, {what}"));
        let crash = Latencies::until_led(&crash, &standby, since, LED, &probe);
        tokio::join!(crash, Latencies::until_led(&join, &better, since, BEST_LEADS, &probe));
        (losing, gaining) = (gaining, losing);
        std::mem::swap(&mut standby, &mut held);
    };
    if rounds > 1 {
        round("nothing hostile").await;
        round("nothing hostile").await;
    }
    eprintln!("memory before: {} KiB", memory(&controller, "VmHWM"));

    let started = Instant::now();
    let mut hostile = Vec::new();
    let (mut leases_made, candidates) = (all(Kind::Lease, objects, 1), all(Kind::Candidate, objects, 2));
    leases_made.extend(megabytes(setting("HOSTILE_MEGABYTES", 0)));
    let distinct = leases_made.len() + candidates.len();
    // Candidates for hostile Leases, for missing Leases, and for each other's.
    let strange = |number: usize| format!("hand-{}", number % 97);
    let (early, late): (Vec<_>, Vec<_>) =
        candidates.iter().cloned().enumerate().partition(|(number, _)| number % 2 == 0);
    let rivals = |half: Vec<(usize, _)>| half.into_iter().map(|(_, rival)| rival);
    let for_ordinary = |number: usize| leases[number % LEASES].clone();
    let kinds = [
        ("Leases apart", apply(&client, &apart, leases_made.clone(), strange).await),
        ("candidates apart", apply(&client, &apart, candidates.clone(), strange).await),
        ("Leases beside ordinary ones", apply(&client, &ordinary, leases_made, strange).await),
        ("candidates for ordinary Leases", apply(&client, &ordinary, rivals(early), for_ordinary).await),
    ];
    let mut accepted = 0;
    for (number, (what, Applied { accepted: paths, refused })) in kinds.into_iter().enumerate() {
        eprintln!("{what}: {} accepted, {} refused", paths.len(), refused.values().sum::<usize>());
        if number < 2 {
            accepted += paths.len();
            for (why, count) in &refused {
                eprintln!("  {count} x {why}");
            }
        }
        hostile.extend(paths);
    }
    eprintln!(
        "{accepted} of {distinct} distinct objects accepted, {} in all, in {:?}",
        hostile.len(),
        started.elapsed()
    );
    assert!(accepted >= 200, "{accepted}");

    let touched = ordinary_objects(&ordinary, &leases);
    let started = Instant::now();
    let churn = Churn::start(client.clone(), hostile, touched, per_second);
    let liars = Liars::stand(client.clone(), &ordinary, &leases[..LIED_ABOUT]).await;
    let further = async {
        let late = apply(&client, &ordinary, rivals(late), for_ordinary).await;
        eprintln!("further candidates for ordinary Leases: {} accepted", late.accepted.len());
    };
    tokio::join!(round("hostile"), further);
    for _ in 1..rounds {
        round("hostile").await;
    }
    let seconds = started.elapsed().as_secs_f64();
    let (changed, refused) = (churn.changed.load(Ordering::Relaxed), churn.refused.load(Ordering::Relaxed));
    let slow = probe.slow();
    eprintln!("churn: {changed} changes in {seconds:.0} s, {refused} refused; {slow} slow writes");
    assert!(changed > 100, "{changed}");
    drop((churn, liars, probe));

    assert_eq!(controller.process.exit_status().unwrap(), None);
    assert_eq!(controller.process.pid(), pid);
    eventually("it is healthy", || async {
        let answer = controller.get("/livez").await?;
        if answer.code == 200 { Ok(()) } else { Err(answer.body) }
    })
    .await;
    let log = std::fs::read_to_string(controller.process.log()).unwrap();
    assert!(!log.contains("panicked") && !log.contains("could not be carried out"), "{log}");
    let (most, now) = (memory(&controller, "VmHWM"), memory(&controller, "VmRSS"));
    eprintln!("memory: {most} KiB at the most, {now} KiB now; the log has {} bytes", log.len());
    assert!(most < MOST_MEMORY_KIB, "{most} KiB");
}

fn all(kind: Kind, count: usize, seed: u64) -> Vec<Hostile> {
    let mut all = by_hand(kind);
    all.extend(generated(kind, count, seed));
    all
}

/// Leases whose holders have a name of a megabyte.
fn megabytes(count: usize) -> Vec<Hostile> {
    let mut all =
        vec![by_hand(Kind::Lease).into_iter().find(|lease| lease.is == "a holder of a megabyte").unwrap(); count];
    for (number, lease) in all.iter_mut().enumerate() {
        lease.object["metadata"]["name"] = format!("megabyte-{number}").into();
    }
    all
}

/// The ordinary Leases and the candidates of the first replicas.
fn ordinary_objects(namespace: &str, leases: &[String]) -> Vec<String> {
    let lease = |lease| format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease}");
    let candidate =
        |lease| format!("/apis/hustings.io/v1alpha1/namespaces/{namespace}/leasecandidates/v1.98.0.{lease}");
    leases.iter().map(lease).chain(leases.iter().map(candidate)).collect()
}

fn memory(controller: &Controller, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", controller.process.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}
