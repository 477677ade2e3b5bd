//! A model of the kubelets: the Pods of the processes, and the ends of their containers that the API server shows.
//!
//! A kubelet is late, forgets ends, and may show one end both as the current state and as the last one. It reports
//! nothing false, unless a world makes it lie. It keeps the premises of evidence. It shows no end while an earlier run
//! of the container may still be alive. It shows no end that is later than the time to which its node's clock was set
//! back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hustings_client::clock::Clock;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::clock::{EPOCH_MICROS, WorldClock};
use crate::link::Link;
use crate::process::NAMESPACE;

/// The container of every process.
pub(crate) const CONTAINER: &str = "main";

/// The longest delay of a kubelet's report.
const LATEST: Duration = Duration::from_secs(4);

const MICROS_PER_SECOND: i64 = 1_000_000;

/// The kubelets of all nodes. Clones are the same ones.
#[derive(Clone, Default)]
pub struct Kubelet(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    pods: BTreeMap<String, PodState>,
    lies: bool,
}

struct PodState {
    uid: String,
    /// The last two runs of the container, the current one last.
    runs: Vec<Run>,
}

/// One run of a container.
struct Run {
    link: Link,
    clock: WorldClock,
    /// The delay until its end is shown.
    late: Duration,
    /// Its end is never shown.
    is_forgotten: bool,
}

impl Kubelet {
    /// A container starts in the Pod of this name.
    pub(crate) fn start(&self, name: &str, uid: &str, (link, clock): (&Link, &WorldClock), rng: &mut StdRng) {
        let mut state = self.state();
        let pod =
            state.pods.entry(name.to_owned()).or_insert_with(|| PodState { uid: uid.to_owned(), runs: Vec::new() });
        if pod.uid != uid {
            *pod = PodState { uid: uid.to_owned(), runs: Vec::new() };
        }
        pod.forget_ends_after(clock);
        let has_lived_on = pod.runs.iter().any(|run| !run.link.is_dead());
        let is_forgotten = has_lived_on || rng.random_bool(0.2);
        let late = rng.random_range(Duration::ZERO..LATEST);
        pod.runs.push(Run { link: link.clone(), clock: clock.clone(), late, is_forgotten });
        let oldest = pod.runs.len().saturating_sub(2);
        pod.runs.drain(..oldest);
    }

    /// Records that the clock of this process was set.
    pub(crate) fn set_date(&self, name: &str, clock: &WorldClock) {
        if let Some(pod) = self.state().pods.get_mut(name) {
            pod.forget_ends_after(clock);
        }
    }

    /// Reports every silent holder as dead from now on.
    pub(crate) fn lie(&self) {
        self.state().lies = true;
    }

    /// The Pod of this name as the API server shows it now.
    pub(crate) fn pod(&self, name: &str) -> Option<Value> {
        let state = self.state();
        let lies = state.lies;
        let PodState { uid, runs } = state.pods.get(name)?;
        let ends: Vec<_> = runs.iter().filter(|run| lies || run.is_shown()).map(|run| terminated(run, lies)).collect();
        let current = ends.last().cloned().unwrap_or_else(|| json!({ "running": {} }));
        let status = json!({
            "name": CONTAINER, "image": "", "imageID": "", "ready": false, "restartCount": runs.len(),
            "state": current, "lastState": ends.first(),
        });
        Some(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "namespace": NAMESPACE, "name": name, "uid": uid },
            "spec": { "containers": [] },
            "status": { "containerStatuses": [status] },
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PodState {
    fn forget_ends_after(&mut self, clock: &WorldClock) {
        let now = clock.wall().as_micros();
        self.runs.iter_mut().filter(|run| run.link.is_dead() && run.ended_micros() > now).for_each(|run| {
            run.is_forgotten = true;
        });
    }
}

impl Run {
    fn is_shown(&self) -> bool {
        !self.is_forgotten && self.link.died_at().is_some_and(|at| Instant::now() >= at + self.late)
    }

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
