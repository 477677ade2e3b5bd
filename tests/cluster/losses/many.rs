//! A process with very many elections is killed, and a standby takes them all over.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use hustings_client::{Campaign, Durations, Elections, lease_client};
use hustings_controlplane::{ControlPlane, PATIENCE, Process, RequestCount};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::stage::{Mode, Times, between};
use super::worker::{self, said, say};
use crate::fenced::config;
use crate::replica::until_within;

/// How much each election may add to the time limits.
const PATIENCE_EACH: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Orders {
    kubeconfig: PathBuf,
    namespace: String,
    identity: String,
    elections: usize,
    is_direct: bool,
    times: Times,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
enum Said {
    /// This process has observed a holder of every Lease.
    AllHeld {},
    /// A term has begun.
    Leads { lease: String, token: u64, at: Timestamp },
}

/// How the Leases of one process passed to the other.
#[derive(Debug)]
pub(crate) struct Taken {
    /// From the kill to each of the terms.
    pub(crate) after: Vec<Duration>,
    /// The API server's request counts from before the kill until all were held, with those of its other clients.
    #[allow(dead_code, reason = "only the example has an API server of its own")]
    pub(crate) requests: Vec<RequestCount>,
}

/// Stands for election until it is killed.
pub(crate) async fn stand(orders: Orders) {
    let Orders { kubeconfig, namespace, identity, elections, is_direct, times } = orders;
    let shared = Elections::new(lease_client(config(kubeconfig).await).unwrap(), &namespace);
    let timing = Durations {
        lease_duration_seconds: u32::try_from(times.lease.as_secs()).unwrap(),
        renew_deadline: times.deadline,
        retry_period: times.retry,
        request_timeout: times.deadline / 2,
        ..Durations::default()
    };
    let campaigns: Vec<Campaign> = (0..elections)
        .map(|number| {
            let lease = format!("shard-{number:04}");
            let builder =
                if is_direct { shared.direct(lease) } else { shared.coordinated(lease, "1.0.0").fallback(false) };
            builder.identity(&identity).timing(timing).build().unwrap().start()
        })
        .collect();
    let held = join_all(campaigns.iter().map(async |campaign| {
        let views = campaign.leadership().changes();
        std::pin::pin!(views.filter(|view| std::future::ready(view.holder.is_some()))).next().await;
    }));
    let report = async {
        held.await;
        say(&Said::AllHeld {});
    };
    let terms = join_all(campaigns.iter().map(async |campaign| {
        let leadership = campaign.leadership();
        let mut terms = std::pin::pin!(leadership.promotions());
        while let Some(term) = terms.next().await {
            say(&Said::Leads { lease: term.lease().to_owned(), token: term.token, at: Timestamp::now() });
        }
    }));
    futures::join!(report, terms);
}

/// Kills one process while the other stands by. Fails if a Lease is not held again, or if its token did not grow.
pub(crate) async fn kill(
    plane: &ControlPlane,
    namespace: &str,
    kubeconfig: &Path,
    elections: usize,
    mode: Mode,
    times: Times,
) -> Taken {
    let start = |identity: &str| {
        let orders = Orders {
            kubeconfig: kubeconfig.to_owned(),
            namespace: namespace.to_owned(),
            identity: identity.to_owned(),
            elections,
            is_direct: mode == Mode::Direct,
            times,
        };
        let command = worker::command(&worker::Orders::StandForMany(orders));
        plane.spawn(&format!("{namespace}-{identity}"), command).unwrap()
    };
    let limit = PATIENCE + PATIENCE_EACH.saturating_mul(u32::try_from(elections).unwrap());
    let first = start("first");
    all(&first, elections, limit).await;
    let second = start("second");
    let sees = async || said::<Said>(&second).iter().any(|said| matches!(said, Said::AllHeld {})).then_some(());
    until_within(limit, "the second sees that all are held", || log(&second), sees).await;

    let before = plane.request_counts().await.unwrap();
    first.kill().unwrap();
    let killed = Timestamp::now();
    let earlier = terms(&first);
    let again = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let later = terms(&second);
        let has_followed = |lease| later.get(lease).is_some_and(|(token, _)| *token > earlier[lease].0);
        earlier.keys().all(has_followed).then_some(later)
    };
    let later = until_within(limit, "it leads all in later terms", || log(&second), again).await;
    let requests = RequestCount::since(&before, plane.request_counts().await.unwrap());
    // On a busy machine it may have led a Lease before.
    let taken = later.values().filter(|(_, at)| *at > killed);
    Taken { after: taken.map(|(_, at)| between(killed, *at)).collect(), requests }
}

/// Waits until a process has led them all.
async fn all(process: &Process, elections: usize, limit: Duration) -> BTreeMap<String, (u64, Timestamp)> {
    let enough = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let terms = terms(process);
        (terms.len() == elections).then_some(terms)
    };
    until_within(limit, "it leads all", || log(process), enough).await
}

fn terms(process: &Process) -> BTreeMap<String, (u64, Timestamp)> {
    let terms = said(process).into_iter().filter_map(|said| match said {
        Said::Leads { lease, token, at } => Some((lease, (token, at))),
        Said::AllHeld {} => None,
    });
    terms.collect()
}

fn log(process: &Process) -> String {
    std::fs::read_to_string(process.log()).unwrap()
}
