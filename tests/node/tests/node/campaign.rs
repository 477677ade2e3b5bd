//! Many kills of leaders, with evidence and without, and of client-go's: how long nobody leads, and whether a Lease is ever
//! taken from a holder that lives. It is no test of every run:
//! `KILLS=500 KILLS_WITHOUT_EVIDENCE=60 cargo test -p hustings-node --test node -- campaign::kills --ignored --nocapture`.
//!
//! What a round did not leave as it was is replaced by a new pod.

use std::{collections::BTreeMap, env, time::Duration};

use futures::future::join_all;
use hustings_controlplane::eventually;
use hustings_node::Interval;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::DeleteParams};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    contenders::Contender,
    endings::ending,
    stage::{Group, Stage},
    steps::{Step, Steps},
    workload::{PROGRAM, renewed_twice, start},
};

/// Groups that suffer at the same time.
const GROUPS: usize = 12;

/// How long nobody may lead. The coordinated election of kube-apiserver takes longer than the lease.
const LIMIT: Duration = Duration::from_mins(3);

/// Shorter than the renew deadline, so that the holder keeps its Lease.
const FREEZE: Duration = Duration::from_secs(6);

/// The usual time between two renewals. A crash may happen at any moment of it, so the kills are spread over it. Without
/// that, all of them would follow the same renewal of a term.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(2);

/// What befalls a leader before it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Before {
    Nothing,
    Freeze,
    /// Its wall clock is set back by an hour.
    StepBack,
    /// Its wall clock is set forward by five seconds, so that its last renewal seems to be later than its end. Times on a
    /// Lease never go back: after a longer step, nothing would be evidence for as long.
    StepForward,
}

/// What a round does, in turn.
const ROUNDS: [Before; 6] =
    [Before::Nothing, Before::Freeze, Before::StepBack, Before::Nothing, Before::Freeze, Before::StepForward];

/// What happened to one group.
#[derive(Default)]
struct Suffered {
    /// For how long nobody led after a kill, by whether the container starts again and by what came before.
    gaps: BTreeMap<(bool, Before), Vec<Duration>>,
    /// Terms of live holders that ended because of evidence.
    false_releases: usize,
    /// Terms of live holders that ended otherwise: the machine or the API server was too slow for a renewal.
    lapses: usize,
    /// When each step between the kill and the next term happened, in seconds after the kill.
    steps: BTreeMap<Step, Vec<f64>>,
}

/// What one group goes through.
struct Course {
    contender: Contender,
    /// Whether its containers start again.
    restarts: bool,
    /// What comes before each kill, in turn.
    rounds: Vec<Before>,
}

impl Course {
    /// The course of one of several groups. They begin at different rounds.
    fn in_turn(contender: Contender, number: usize, rounds: &[Before]) -> Self {
        let mut rounds = rounds.to_vec();
        let first = number / 2 % rounds.len();
        rounds.rotate_left(first);
        Self { contender, restarts: number % 2 == 1, rounds }
    }
}

/// Kills after everything else that may befall a leader. In every second group the containers start again.
pub(crate) async fn kills() {
    campaign(GROUPS, 48, &Contender::OF_HUSTINGS, |contender, number| Course::in_turn(contender, number, &ROUNDS))
        .await;
}

/// The same for client-go with assistance, whose wall clock nothing here changes:
/// `KILLS=300 cargo test -p hustings-node --test node -- campaign::assisted_kills --ignored --nocapture`.
pub(crate) async fn assisted_kills() {
    let rounds = [Before::Nothing, Before::Freeze];
    campaign(GROUPS, 48, &[Contender::Assisted], |contender, number| Course::in_turn(contender, number, &rounds)).await;
}

/// Kills alone, few at a time: for the time without a leader.
pub(crate) async fn latencies() {
    let course = |contender, _| Course { contender, restarts: false, rounds: vec![Before::Nothing] };
    campaign(2, 16, &Contender::ALL, course).await;
}

/// `KILLS` overrides the usual number of kills, and `KILLS_WITHOUT_EVIDENCE` that of all contenders without evidence.
pub(crate) fn number_of_kills(contender: Contender, usual: usize) -> usize {
    let number = |variable: &str, usual: usize| env::var(variable).map_or(usual, |number| number.parse().unwrap());
    let with_evidence = number("KILLS", usual);
    if contender.has_evidence() { with_evidence } else { number("KILLS_WITHOUT_EVIDENCE", with_evidence) }
}

async fn campaign(groups: usize, usual: usize, contenders: &[Contender], course: impl Fn(Contender, usize) -> Course) {
    let mut rows = Vec::new();
    for contender in contenders.iter().copied() {
        let kills = number_of_kills(contender, usual);
        if kills == 0 {
            continue;
        }
        contender.set_up().await;
        let suffered = (0..groups).map(async |number| {
            let name = format!("campaign-{groups}-{contender:?}-{number}").to_lowercase();
            let group = contender.group(&name).await;
            let suffered = suffer(&group, &course(contender, number), kills.div_ceil(groups)).await;
            group.end().await;
            suffered
        });
        let mut sum = Suffered::default();
        for suffered in join_all(suffered).await {
            suffered.gaps.into_iter().for_each(|(kind, gaps)| sum.gaps.entry(kind).or_default().extend(gaps));
            suffered.steps.into_iter().for_each(|(step, times)| sum.steps.entry(step).or_default().extend(times));
            sum.false_releases += suffered.false_releases;
            sum.lapses += suffered.lapses;
        }
        print_steps(contender, &mut sum);
        assert_eq!(sum.false_releases, 0);
        rows.extend(table_rows(contender, &mut sum));
    }
    println!("| leader | before the kill | restarts | kills | nobody led for, p50 | p95 | longest | lapsed terms |");
    println!("|---|---|---|---|---|---|---|---|");
    for row in rows {
        println!("{row}");
    }
}

fn print_steps(contender: Contender, sum: &mut Suffered) {
    for (step, times) in &mut sum.steps {
        times.sort_unstable_by(f64::total_cmp);
        let (half, most) = (percentile(times, 50), percentile(times, 95));
        println!("{contender:?}, {step:?}: p50 {half:.2} s, p95 {most:.2} s after a kill and nothing before it");
    }
    println!("{contender:?}: {} false releases, {} lapsed terms", sum.false_releases, sum.lapses);
}

/// One row for each kind of kill. The lapsed terms are those of all kinds together.
fn table_rows(contender: Contender, sum: &mut Suffered) -> Vec<String> {
    let lapses = sum.lapses;
    let row = |((restarts, before), gaps): (&(bool, Before), &mut Vec<Duration>)| {
        gaps.sort_unstable();
        let [half, most, longest] = [50, 95, 100].map(|percent| percentile(gaps, percent));
        let (name, count) = (contender.name(), gaps.len());
        format!("| {name} | {before:?} | {restarts} | {count} | {half:.1?} | {most:.1?} | {longest:.1?} | {lapses} |")
    };
    sum.gaps.iter_mut().map(row).collect()
}

/// When to kill in a round, after a renewal. Multiples of the golden ratio spread evenly.
pub(crate) fn delay(round: usize) -> Duration {
    let fraction = (1.0 + f64::from(u32::try_from(round).unwrap())) * 0.618_034 % 1.0;
    RENEWAL_INTERVAL.mul_f64(fraction)
}

pub(crate) fn percentile<T>(sorted: &[T], percent: usize) -> &T {
    &sorted[(sorted.len() * percent).div_ceil(100).saturating_sub(1)]
}

/// Kills the leader so many times.
async fn suffer(group: &Group, course: &Course, kills: usize) -> Suffered {
    let mut suffered = Suffered::default();
    let mut template = course.contender.template(group).await;
    template["spec"]["restartPolicy"] = json!(if course.restarts { "Always" } else { "Never" });
    course.contender.start(group, &template).await;
    let mut elected: Option<Interval> = None;
    let steps = Steps::watch(group);
    for round in 0..kills {
        let replaced = heal(group, course.contender, &template).await;
        // The term that followed the last kill goes on, unless its pod was replaced.
        if let Some(elected) = elected.filter(|elected| !replaced.contains(&elected.replica)) {
            has_kept_its_lease(group, &elected, "its election", &mut suffered).await;
        }
        let before = course.rounds[round % course.rounds.len()];
        let delay = delay(round);
        let leader = harmed_leader(group, course.contender, &template, before, delay, &mut suffered).await;
        group.signal(&leader.replica, PROGRAM, Signal::KILL).await;
        let next = group.leader_after(&leader, LIMIT).await;
        let intervals = Stage::shared().node.reports().intervals(&group.name);
        let killed = intervals.iter().find(|interval| interval.is_same(&leader)).unwrap();
        suffered.gaps.entry((course.restarts, before)).or_default().push(killed.gap_to(&next));
        if (course.restarts, before) == (false, Before::Nothing) {
            for (step, at) in steps.between(killed, &next) {
                suffered.steps.entry(step).or_default().push(at);
            }
        }
        println!("{} {}/{kills}: {before:?}, then nobody led for {:.1?}", group.name, round + 1, killed.gap_to(&next));
        elected = Some(next);
    }
    suffered
}

/// The leader, after what came before the kill and a delay. If its term ends meanwhile, that is counted, and the next leader
/// suffers.
async fn harmed_leader(
    group: &Group,
    contender: Contender,
    template: &Value,
    before: Before,
    delay: Duration,
    suffered: &mut Suffered,
) -> Interval {
    loop {
        let leader = group.settled_leader().await;
        let pod = &leader.replica;
        match before {
            Before::Nothing => {}
            Before::Freeze => group.freeze(pod, PROGRAM, FREEZE).await,
            Before::StepBack => drop(group.exec(pod, PROGRAM, &["/worker", "order", "step", "-3600"]).await),
            Before::StepForward => drop(group.exec(pod, PROGRAM, &["/worker", "order", "step", "5"]).await),
        }
        if before != Before::Nothing {
            renewed_twice(group).await;
        }
        tokio::time::sleep(delay).await;
        if has_kept_its_lease(group, &leader, &format!("{before:?}"), suffered).await {
            return leader;
        }
        heal(group, contender, template).await;
    }
}

/// Whether this leader, which was not killed, still leads once its Lease has a settled leader. If not, that is counted. A
/// process of client-go acquires a Lease again that was taken from it, and leads on: that counts, too.
async fn has_kept_its_lease(group: &Group, leader: &Interval, after: &str, suffered: &mut Suffered) -> bool {
    let is_same = group.settled_leader().await.is_same(leader);
    let ending = ending(group, leader).await;
    let is_false = ending.as_ref().is_some_and(|ending| ending.starts_with("proven dead"));
    suffered.false_releases += usize::from(is_false);
    suffered.lapses += usize::from(!is_false && !is_same);
    if is_false || !is_same {
        println!("{}: {leader:?} lost its Lease after {after}: {ending:?}", group.name);
    }
    is_same
}

/// Puts new pods of the same names into the place of those whose container has ended, and returns these names. A
/// container that starts again would wait longer each time.
async fn heal(group: &Group, contender: Contender, template: &Value) -> Vec<String> {
    let pods = group.api::<Pod>();
    let mut replaced = Vec::new();
    for pod in group.pods().await {
        let has_ended = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten()).any(|status| {
            status.restart_count > 0 || status.state.as_ref().is_some_and(|state| state.terminated.is_some())
        });
        if !has_ended {
            continue;
        }
        let name = pod.name_any();
        group.delete(&name, &DeleteParams::default()).await;
        let gone = eventually(async || match pods.get_opt(&name).await {
            Ok(None) => Ok(()),
            other => Err(other),
        });
        gone.await.expect("the pod is deleted");
        start(group, &name, template.clone()).await;
        replaced.push(name);
    }
    contender.wait_for_replicas(group).await;
    replaced
}
