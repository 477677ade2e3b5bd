//! A Service that leads to the leader, with real traffic: a client on the node that connects to its address, many times a
//! second. Each Pod answers with its name, and whether it leads now.

use std::{
    env, io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hustings_controlplane::{PATIENCE, within};
use hustings_node::since_start;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Pod, Service},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use rustix::process::Signal;
use serde_json::json;
use tokio::{
    io::AsyncReadExt as _,
    net::TcpStream,
    time::{interval, timeout},
};

use super::{
    contenders::Contender,
    objects::create,
    stage::{Group, LEASE, RELEASE, Stage},
    workload::{LONG_LEASE, PROGRAM, lasting_leader, renewed_twice, start},
};

const LABEL: &str = "hustings.io/leader";

/// The port of the worker.
const PORT: u16 = 8000;

/// The time between two connections.
const PERIOD: Duration = Duration::from_millis(10);

/// How long a connection may take. After it, the answer counts as none.
const LONGEST: Duration = Duration::from_secs(2);

/// How many answers in a row show where the Service leads.
const SETTLED: usize = 50;

/// One connection to the Service.
#[derive(Clone, Debug)]
struct Answer {
    /// When it began, since the machine started.
    at: Duration,
    /// The Pod, and whether it led; `None` if nobody answered.
    from: Option<(String, bool)>,
}

/// A client of the Service, until it is dropped.
struct Traffic {
    answers: Arc<Mutex<Vec<Answer>>>,
    ends: Arc<AtomicBool>,
}

/// What clients saw of one change of the leader.
#[derive(Clone, Copy, Debug, Default)]
struct Outage {
    /// From the last answer of the former leader in its term to the first one of the next.
    total: Duration,
    /// The part in which a Pod answered that did not lead.
    not_leading: Duration,
    /// The part in which nobody answered.
    nobody: Duration,
}

impl Traffic {
    /// Creates the Service, labels the leader, and begins.
    async fn start(group: &Group) -> Self {
        let ports = json!([{"port": 80, "targetPort": PORT}]);
        let spec = json!({"selector": {LABEL: "true"}, "ports": ports});
        let service =
            create::<Service>(&group.api(), json!({"metadata": {"name": "leader"}, "spec": spec})).await.spec.unwrap();
        let address: SocketAddr = format!("{}:80", service.cluster_ip.unwrap()).parse().unwrap();
        let annotation = json!({"metadata": {"annotations": {"hustings.io/leader-label": format!("{LABEL}=true")}}});
        let leases = group.api::<Lease>();
        leases.patch(LEASE, &PatchParams::default(), &Patch::Merge(annotation)).await.unwrap();

        let traffic = Self { answers: Arc::default(), ends: Arc::default() };
        let (answers, ends) = (Arc::clone(&traffic.answers), Arc::clone(&traffic.ends));
        let namespaces = Stage::shared().node.plane().namespaces().unwrap();
        namespaces
            .spawn_inside("traffic", async move || {
                let mut turns = interval(PERIOD);
                while !ends.load(Ordering::Relaxed) {
                    turns.tick().await;
                    let (answers, at) = (Arc::clone(&answers), since_start());
                    tokio::spawn(async move {
                        let from = timeout(LONGEST, ask(address)).await.ok().and_then(Result::ok).flatten();
                        answers.lock().unwrap().push(Answer { at, from });
                    });
                }
                Ok(())
            })
            .unwrap();
        traffic
    }

    /// The answers so far, in the order in which the connections began.
    fn answers(&self) -> Vec<Answer> {
        let mut answers = self.answers.lock().unwrap().clone();
        answers.sort_by_key(|answer| answer.at);
        answers
    }

    /// Waits until only this Pod answers, and leads.
    async fn leads_to(&self, pod: &str) {
        let from = since_start();
        let outcome = within(PATIENCE, async || {
            let answers = self.answers();
            let latest: Vec<_> = answers.iter().rev().take_while(|answer| answer.at > from).take(SETTLED).collect();
            let right =
                latest.iter().filter(|answer| answer.from.as_ref().is_some_and(|(name, leads)| name == pod && *leads));
            let count = right.count();
            if count == SETTLED {
                Ok(())
            } else {
                Err(format!("{count} of {} answers: {:?}", latest.len(), latest.first()))
            }
        });
        outcome.await.unwrap_or_else(|error| panic!("the Service does not lead to {pod}: {error}"));
    }

    /// What clients saw of the change from this leader to another one, which is over.
    fn outage(&self, former: &str, next: &str) -> Outage {
        let answers = self.answers();
        let is_of =
            |answer: &Answer, pod: &str| answer.from.as_ref().is_some_and(|(name, leads)| name == pod && *leads);
        let first = answers.iter().rposition(|answer| is_of(answer, former)).unwrap();
        let length = answers[first..].iter().position(|answer| is_of(answer, next)).unwrap();
        let mut outage =
            Outage { total: answers[first + length].at.saturating_sub(answers[first].at), ..Outage::default() };
        for pair in answers[first + 1..=first + length].windows(2) {
            let lasts = pair[1].at.saturating_sub(pair[0].at);
            *(if pair[0].from.is_some() { &mut outage.not_leading } else { &mut outage.nobody }) += lasts;
        }
        outage
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// The answer to one connection: the name of the Pod, and whether it leads.
async fn ask(address: SocketAddr) -> io::Result<Option<(String, bool)>> {
    let mut connection = TcpStream::connect(address).await?;
    let mut text = String::new();
    connection.read_to_string(&mut text).await?;
    Ok(text.trim().split_once(' ').map(|(pod, leads)| (pod.to_owned(), leads == "true")))
}

/// The holder hands over, as `hustings transfer` asks it to.
async fn hand_over(group: &Group) {
    let transfer = json!({"metadata": {"annotations": {"hustings.io/transfer": "any"}}});
    group.api::<Lease>().patch(LEASE, &PatchParams::default(), &Patch::Merge(transfer)).await.unwrap();
}

async fn labelled(group: &Group) -> Vec<String> {
    let pods = group.api::<Pod>().list(&ListParams::default().labels(LABEL)).await.unwrap();
    pods.items.iter().map(kube::ResourceExt::name_any).collect()
}

pub(crate) async fn service_leads_to_the_leader_after_a_hand_over_a_crash_and_a_restart_of_the_controllers() {
    // The controllers restart.
    let group = Group::alone("service").await;
    let first = lasting_leader(&group).await;
    let traffic = Traffic::start(&group).await;
    traffic.leads_to(&first.replica).await;

    hand_over(&group).await;
    let second = group.leader_after(&first, LONG_LEASE).await;
    traffic.leads_to(&second.replica).await;
    renewed_twice(&group).await;
    group.signal(&second.replica, PROGRAM, Signal::KILL).await;
    let third = group.leader_after(&second, LONG_LEASE).await;
    traffic.leads_to(&third.replica).await;

    // While no controller runs, the label stays, and a person adds it to another Pod.
    let controllers = Api::<Pod>::namespaced(group.plane().admin(), RELEASE);
    let before = since_start();
    let all = ListParams::default();
    let former = controllers.list(&all).await.unwrap();
    controllers.delete_collection(&DeleteParams::default().grace_period(0), &all).await.unwrap();
    assert_eq!(labelled(&group).await, [third.replica.as_str()]);
    let wrong = traffic.answers().into_iter().filter(|answer| answer.at > before);
    let right = (third.replica.clone(), true);
    // A slow connection is no wrong answer.
    let wrong: Vec<_> = wrong.filter(|answer| answer.from.as_ref().is_some_and(|from| *from != right)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let other = group.pods().await.iter().map(kube::ResourceExt::name_any).find(|name| *name == first.replica);
    let by_kubectl = PatchParams { field_manager: Some("kubectl-label".to_owned()), ..PatchParams::default() };
    let label = Patch::Merge(json!({"metadata": {"labels": {LABEL: "true"}}}));
    group.api::<Pod>().patch(&other.unwrap(), &by_kubectl, &label).await.unwrap();
    let corrected = within(PATIENCE, async || match labelled(&group).await {
        pods if pods == [third.replica.as_str()] => Ok(()),
        pods => Err(pods),
    });
    corrected.await.unwrap();
    traffic.leads_to(&third.replica).await;
    let ready = within(PATIENCE, async || {
        let pods = controllers.list(&all).await.unwrap().items;
        let is_new = |pod: &&Pod| former.items.iter().all(|old| old.uid() != pod.uid()) && super::workload::runs(pod);
        let count = pods.iter().filter(is_new).count();
        if count >= 2 { Ok(()) } else { Err(format!("{count} new controllers run")) }
    });
    ready.await.unwrap();
    group.end().await;
}

/// How long traffic reaches nobody, or a Pod that does not lead. `CHANGES` overrides how often the leader changes in each
/// way.
pub(crate) async fn latencies() {
    let changes = env::var("CHANGES").map_or(12, |number| number.parse().unwrap());
    let mut rows = Vec::new();
    for crashes in [false, true] {
        let way = if crashes { "crash" } else { "hand-over" };
        let group = Group::new(&format!("traffic-{way}")).await;
        let mut template = Contender::Evidence.template(&group).await;
        template["spec"]["restartPolicy"] = json!("Never");
        Contender::Evidence.start(&group, &template).await;
        group.leader().await;
        let traffic = Traffic::start(&group).await;
        let mut outages = Vec::new();
        for _ in 0..changes {
            let leader = if crashes { group.settled_leader().await } else { group.leader().await };
            traffic.leads_to(&leader.replica).await;
            if crashes {
                group.signal(&leader.replica, PROGRAM, Signal::KILL).await;
            } else {
                hand_over(&group).await;
            }
            let next = group.leader_after(&leader, LONG_LEASE).await;
            traffic.leads_to(&next.replica).await;
            let outage = traffic.outage(&leader.replica, &next.replica);
            println!("{way}: {outage:.3?}");
            outages.push(outage);
            if crashes {
                replace(&group, &leader.replica, template.clone()).await;
            }
        }
        let mut row = vec![way.to_owned(), changes.to_string()];
        for part in [|one: &Outage| one.total, |one: &Outage| one.not_leading, |one: &Outage| one.nobody] {
            let mut parts: Vec<_> = outages.iter().map(part).collect();
            parts.sort_unstable();
            row.extend([parts[parts.len() / 2], parts[parts.len() - 1]].map(|part| format!("{part:.2?}")));
        }
        rows.push(format!("| {} |", row.join(" | ")));
        group.end().await;
    }
    println!(
        "| change | changes | the leader does not answer for, p50 | longest | another Pod answers for, p50 | longest | nobody answers for, p50 | longest |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for row in rows {
        println!("{row}");
    }
}

/// Puts a new Pod of the same name into the place of one whose container has ended.
async fn replace(group: &Group, name: &str, template: serde_json::Value) {
    group.delete(name, &DeleteParams::default()).await;
    within(PATIENCE, async || match group.api::<Pod>().get_opt(name).await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    start(group, name, template).await;
    Contender::Evidence.wait_for_replicas(group).await;
}
