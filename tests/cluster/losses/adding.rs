//! A process that adds to the set while it leads, and stops at a given place on request.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hustings_client::{Durations, Elector, Leadership, Term, WriteGate, lease_client};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::client::ClientBuilder;
use kube::{Api, Client};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tower::util::MapRequestLayer;

use super::lockset::Protection;
use super::worker::say;
use crate::fenced::{NAME, config};

/// The key of the set in its ConfigMap.
pub(crate) const SET: &str = "set";

/// A lease that expires within a test's patience, for processes that elect among themselves. Candidates have the defaults.
const TIMING: Durations = Durations {
    lease_duration_seconds: 5,
    renew_deadline: Duration::from_millis(4_900),
    retry_period: Duration::from_millis(500),
    jitter_percent: 20,
    request_timeout: Duration::from_secs(2),
    stop_grace: Duration::from_secs(30),
};
/// The gate's deadline.
const WRITE: Duration = Duration::from_secs(3);
/// From the read to the write: the time in which a program would process the data.
const THINKING: Duration = Duration::from_millis(30);
/// The pause between two additions.
const PAUSE: Duration = Duration::from_millis(60);
/// How many additions precede a stop.
const BEFORE_STOP: u64 = 3;
/// The pause between two readings of the flag.
const LOOK: Duration = Duration::from_millis(2);
/// The pause between two reports about it.
const WORD: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Orders {
    pub(crate) kubeconfig: PathBuf,
    /// Replaces the server that the kubeconfig names.
    pub(crate) server: Option<String>,
    pub(crate) namespace: String,
    pub(crate) pod: String,
    /// The version of a candidate for a controller; without one the processes elect among themselves.
    pub(crate) version: Option<String>,
    pub(crate) protection: Protection,
    pub(crate) stop: Option<Stop>,
}

/// A stop within a write, once.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Stop {
    pub(crate) place: Place,
    pub(crate) action: Action,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) enum Place {
    /// Before it reads.
    Begin,
    /// After the read, before the check whether it leads.
    Check,
    /// While the request is on its way to the connection.
    Send,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Action {
    /// The process freezes itself.
    Freeze,
    /// This write waits until the file exists.
    Await(PathBuf),
}

/// The process's reports.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Said {
    /// The process stops now, in the middle of a write.
    Stops {},
    /// The server acknowledged this number.
    Added { number: String },
    /// The number was not written, or the outcome is unknown.
    Refused { why: String },
    /// The flag was true at each reading between the two instants.
    Led { from_micros: i64, until_micros: i64 },
}

impl Said {
    pub(crate) fn added(&self) -> Option<&str> {
        match self {
            Self::Added { number } => Some(number),
            _ => None,
        }
    }
}

/// Stops at the requested place, once it is armed.
#[derive(Clone)]
struct Brake {
    stop: Option<Stop>,
    armed: Arc<AtomicBool>,
}

pub(crate) async fn add_for_ever(orders: Orders) {
    let Orders { kubeconfig, server, namespace, pod, version, protection, stop } = orders;
    let mut config = config(kubeconfig).await;
    if let Some(server) = server {
        config.cluster_url = server.parse().unwrap();
    }
    let client = lease_client(config.clone()).unwrap();
    let builder = match version {
        Some(version) => Elector::coordinated(client, &namespace, NAME, version),
        None => Elector::direct(client, &namespace, NAME).timing(TIMING),
    };
    let elector = builder.identity(&pod).build().unwrap();
    let leadership = elector.leadership();
    std::thread::spawn({
        let leadership = leadership.clone();
        move || watch_flag(&leadership)
    });

    let brake = Brake { stop, armed: Arc::default() };
    // The gate is outside this layer. It reads the clock once more after this layer; nothing checks the time after that.
    let last = MapRequestLayer::new({
        let brake = brake.clone();
        move |request: http::Request<kube::client::Body>| {
            if request.method() == http::Method::PATCH {
                brake.reach(Place::Send);
            }
            request
        }
    });
    let plain = ClientBuilder::try_from(config).unwrap().with_layer(&last).build();
    let client: Client =
        if protection.is_gated() { WriteGate::new(leadership.clone(), WRITE).unwrap().gate(plain) } else { plain };
    let sets = Api::<ConfigMap>::namespaced(client, &namespace);
    let worked = elector.run(|term| {
        let (sets, brake, leadership, pod) = (sets.clone(), brake.clone(), leadership.clone(), pod.clone());
        async move {
            let mut number = 0;
            while !term.cancellation().is_cancelled() {
                number += 1;
                if number == BEFORE_STOP + 1 {
                    brake.armed.store(true, Ordering::SeqCst);
                }
                // A number that no other process ever adds, not even its replacement. It begins with the token of the term.
                let name = format!("{}.{pod}.{}.{number}", term.token, std::process::id());
                say(&match add(&sets, &term, &leadership, &brake, protection, &name).await {
                    Ok(()) => Said::Added { number: name },
                    Err(why) => Said::Refused { why },
                });
                // The end of the term does not wait for the pause.
                let _ = tokio::time::timeout(PAUSE, term.cancellation().cancelled()).await;
            }
        }
    });
    worked.await.unwrap();
}

/// Reads the set, and writes it back with one more number.
async fn add(
    sets: &Api<ConfigMap>,
    term: &Term,
    leadership: &Leadership,
    brake: &Brake,
    protection: Protection,
    number: &str,
) -> Result<(), String> {
    brake.reach(Place::Begin);
    let read = sets.get(NAME).await.map_err(|error| error.to_string())?;
    let set = read.data.unwrap_or_default().remove(SET).unwrap_or_default();
    tokio::time::sleep(THINKING).await;
    brake.reach(Place::Check);
    if protection == Protection::Flag && !leadership.is_leader() {
        return Err("it leads no more".to_owned());
    }
    let mut patch = json!({ "data": { SET: format!("{set} {number}") } });
    if protection.is_marked() {
        patch["metadata"] = json!({"annotations": {"hustings.io/fence": term.fencing().to_string()}});
    }
    sets.patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop).map_err(|error| error.to_string())
}

impl Brake {
    fn reach(&self, place: Place) {
        let Some(stop) = self.stop.as_ref().filter(|stop| stop.place == place) else { return };
        if !self.armed.swap(false, Ordering::SeqCst) {
            return;
        }
        say(&Said::Stops {});
        match &stop.action {
            Action::Freeze => {
                kill_process(getpid(), Signal::STOP).unwrap();
                // The signal may take another thread first; this one does nothing until it has taken them all.
                std::thread::sleep(Duration::from_secs(2));
            }
            Action::Await(file) => {
                while !file.exists() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }
}

/// Reports when the flag was true. Each reading of the flag is between two readings of the clock.
fn watch_flag(leadership: &Leadership) {
    let mut stretch: Option<(i64, i64)> = None;
    let mut reported = Instant::now();
    loop {
        let before = micros();
        let leads = leadership.is_leader();
        let after = micros();
        match (leads, &mut stretch) {
            (true, None) => stretch = Some((after, before)),
            (true, Some((_, until_micros))) => *until_micros = before,
            (false, _) => {}
        }
        if let Some((from_micros, until_micros)) = stretch
            && (!leads || reported.elapsed() >= WORD)
        {
            say(&Said::Led { from_micros, until_micros });
            reported = Instant::now();
        }
        if !leads {
            stretch = None;
        }
        std::thread::sleep(LOOK);
    }
}

fn micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_micros()).unwrap()
}
