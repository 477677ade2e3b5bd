//! A model of the kubelets: the Pods of the processes, and the ends of their containers that they report.
//!
//! A kubelet is late, repeats itself, forgets ends, and may show one end both as the current state and as the last one.
//! It reports nothing false, unless a world makes it lie. It keeps the premises of evidence. It shows no end while an
//! earlier run of the container may still be alive. No clock of a node is set back to before an end that was reported.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hustings_client::clock::Clock;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::clock::{EPOCH_MICROS, WorldClock};
use crate::link::Link;
use crate::process::NAMESPACE;
use crate::server::Server;

/// The container of every process.
pub(crate) const CONTAINER: &str = "main";

/// The longest delay of a kubelet's report, and then of its repetition.
const LATEST: Duration = Duration::from_secs(4);

/// How often a kubelet lies.
const LIES_EVERY: Duration = Duration::from_secs(1);

const MICROS_PER_SECOND: i64 = 1_000_000;

/// The kubelets of all nodes. Clones are the same ones.
#[derive(Clone, Default)]
pub struct Kubelet(Arc<Mutex<BTreeMap<String, PodState>>>);

struct PodState {
    uid: String,
    /// The last two runs of the container, the current one last.
    runs: Vec<Run>,
}

/// One run of a container.
struct Run {
    link: Link,
    clock: WorldClock,
    /// Its end was reported.
    is_reported: bool,
    /// Its end is never reported, or no longer shown.
    is_forgotten: bool,
}

impl Kubelet {
    /// A container starts in the Pod of this name.
    pub(crate) fn start(
        &self,
        server: &Server,
        (name, uid): (&str, &str),
        (link, clock): (&Link, &WorldClock),
        rng: &mut StdRng,
    ) {
        let mut pods = self.pods();
        if pods.get(name).is_some_and(|pod| pod.uid != uid) {
            pods.remove(name);
            server.put_pod(NAMESPACE, name, None);
        }
        let pod = pods.entry(name.to_owned()).or_insert_with(|| PodState { uid: uid.to_owned(), runs: Vec::new() });
        pod.keep_premise(clock);
        let has_lived_on = pod.runs.iter().any(|run| !run.link.is_dead());
        let is_forgotten = has_lived_on || rng.random_bool(0.2);
        pod.runs.push(Run { link: link.clone(), clock: clock.clone(), is_reported: false, is_forgotten });
        let oldest = pod.runs.len().saturating_sub(2);
        pod.runs.drain(..oldest);
        server.put_pod(NAMESPACE, name, Some(pod.object(name, false)));
        let [late, again] = [(); 2].map(|()| rng.random_range(Duration::ZERO..LATEST));
        let forgets = rng.random_bool(0.2);
        let (kubelet, server, name, link) = (self.clone(), server.clone(), name.to_owned(), link.clone());
        tokio::spawn(async move {
            link.died().await;
            tokio::time::sleep(late).await;
            kubelet.report(&server, &name, &link, false);
            tokio::time::sleep(again).await;
            kubelet.report(&server, &name, &link, forgets);
        });
    }

    /// Reports the end of this run, or shows that it was forgotten.
    fn report(&self, server: &Server, name: &str, link: &Link, forgets: bool) {
        let mut pods = self.pods();
        let Some(pod) = pods.get_mut(name) else { return };
        let Some(run) = pod.runs.iter_mut().find(|run| run.link.is(link)) else { return };
        run.is_forgotten |= forgets;
        run.is_reported |= !run.is_forgotten;
        server.put_pod(NAMESPACE, name, Some(pod.object(name, false)));
    }

    /// The Pod of this name is deleted. The deletion shows its last state.
    pub(crate) fn remove(&self, server: &Server, name: &str) {
        if self.pods().remove(name).is_some() {
            server.put_pod(NAMESPACE, name, None);
        }
    }

    /// Records that the clock of this process was set.
    pub(crate) fn set_date(&self, name: &str, clock: &WorldClock) {
        if let Some(pod) = self.pods().get_mut(name) {
            pod.keep_premise(clock);
        }
    }

    /// Reports the container of every process that is cut off as ended, from now on.
    pub(crate) fn lie(&self, server: &Server) {
        let (kubelet, server) = (self.clone(), server.clone());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LIES_EVERY).await;
                for (name, pod) in kubelet.pods().iter().filter(|(_, pod)| pod.is_cut_off()) {
                    server.put_pod(NAMESPACE, name, Some(pod.object(name, true)));
                }
            }
        });
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<String, PodState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PodState {
    /// Sets this clock of the node forward if it shows an earlier time than an end that was reported, and forgets the
    /// other ends that are later than this clock.
    fn keep_premise(&mut self, clock: &WorldClock) {
        let now = clock.wall().as_micros();
        let ended = self.runs.iter_mut().filter(|run| run.link.is_dead());
        for run in ended {
            let ahead = run.ended_micros() - now;
            if ahead > 0 && run.is_reported {
                clock.step_wall(ahead);
            } else if ahead > 0 {
                run.is_forgotten = true;
            }
        }
    }

    fn is_cut_off(&self) -> bool {
        self.runs.last().is_some_and(|run| run.link.is_cut())
    }

    /// The Pod as the API server stores it.
    fn object(&self, name: &str, lies: bool) -> Value {
        let shown = self.runs.iter().filter(|run| lies || run.is_reported && !run.is_forgotten);
        let ends: Vec<_> = shown.map(|run| terminated(run, lies)).collect();
        let current = ends.last().cloned().unwrap_or_else(|| json!({ "running": {} }));
        let status = json!({
            "name": CONTAINER, "image": "", "imageID": "", "ready": false, "restartCount": self.runs.len(),
            "state": current, "lastState": ends.first(),
        });
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "namespace": NAMESPACE, "name": name, "uid": self.uid },
            "spec": { "containers": [] },
            "status": { "containerStatuses": [status] },
        })
    }
}

impl Run {
    /// When it ended, by the clock of its node.
    fn ended_micros(&self) -> i64 {
        let ago = self.link.died_at().map_or(Duration::ZERO, |at| at.elapsed());
        self.clock.wall().as_micros() - i64::try_from(ago.as_micros()).unwrap_or(i64::MAX)
    }
}

/// The state of a run that has ended.
fn terminated(run: &Run, lies: bool) -> Value {
    let micros = if lies { run.clock.wall().as_micros() } else { run.ended_micros() };
    let seconds = micros.max(EPOCH_MICROS / 2).div_euclid(MICROS_PER_SECOND);
    let finished_at = jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string();
    json!({ "terminated": { "exitCode": 137, "reason": "Error", "finishedAt": finished_at } })
}
