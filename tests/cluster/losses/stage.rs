//! A control plane of its own, two controllers as the chart has them, and pairs of replicas that stand for one Lease.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use hustings_controlplane::{ControlPlane, NativeElection, Process};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use serde::{Deserialize, Serialize};

use crate::replica::{Replica, Term, campaign, candidate_account, controller, install_chart, until};

/// The pause between two reads of a Lease: many are read at once.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long the stage waits for an answer before it asks again.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// A Lease counts as held again after this many observed renewals.
const SIGHTS: usize = 3;

pub(crate) struct Stage {
    pub(crate) plane: ControlPlane,
    pub(crate) controllers: [Process; 2],
    pub(crate) namespace: String,
    pub(crate) kubeconfig: PathBuf,
    pub(super) admin: Client,
}

/// What elects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A controller; its candidates do not elect among themselves.
    Elected,
    /// Nothing: the first replica that finds the Lease free claims it.
    Direct,
}

/// Lease duration, renew deadline and retry period.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Times {
    pub(crate) lease: Duration,
    pub(crate) deadline: Duration,
    pub(crate) retry: Duration,
}

/// Two replicas that stand for one Lease.
pub(crate) struct Group {
    pub(crate) mode: Mode,
    pub(crate) times: Times,
    pub(crate) lease: String,
    pub(crate) replicas: [Replica; 2],
}

impl Times {
    pub(crate) const fn millis(lease: u64, deadline: u64, retry: u64) -> Self {
        let [lease, deadline, retry] =
            [Duration::from_millis(lease), Duration::from_millis(deadline), Duration::from_millis(retry)];
        Self { lease, deadline, retry }
    }

    /// As the flags of Hustings and of the replicas with client-go.
    pub(super) fn flags(self) -> [String; 3] {
        [
            format!("--lease-duration={}s", self.lease.as_secs()),
            format!("--renew-deadline={}ms", self.deadline.as_millis()),
            format!("--retry-period={}ms", self.retry.as_millis()),
        ]
    }

    /// An outage shorter than this ends no term. Up to one jittered retry period passes between the last renewal and
    /// the outage, and as much from its end to the next renewal.
    pub(crate) fn harmless(self) -> Duration {
        self.deadline.saturating_sub(self.retry.mul_f64(2.0 * 1.2))
    }
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with_controllers(&[]).await
    }

    pub(crate) async fn with_controllers(flags: &[&str]) -> Self {
        Self::on(ControlPlane::builder().start().await.unwrap(), flags).await
    }

    /// On three members of etcd and two API servers, whose own election controller Hustings stands in for.
    pub(crate) async fn replicated() -> Self {
        let builder = ControlPlane::builder().replicated().native_election(NativeElection::On);
        let stage = Self::on(builder.start().await.unwrap(), &["--native", "--native-stand-in"]).await;
        // Until then Kubernetes' controller may ask holders of the same second to hand over, and a term ends seconds later.
        let text = |controller: &Process| std::fs::read_to_string(controller.log()).unwrap_or_default();
        let log = || stage.controllers.iter().map(text).collect::<String>();
        let stands_in = async || log().contains("this controller elects native candidates").then_some(());
        until("Hustings stands in", log, stands_in).await;
        stage
    }

    async fn on(plane: ControlPlane, flags: &[&str]) -> Self {
        let native = flags.contains(&"--native");
        install_chart(&plane, if native { &["--set=native.enabled=true,native.standIn=true"] } else { &[] }).await;
        let controllers = [
            controller(&plane, "hustings-0", &[flags, &["--log-format=json"]].concat()).await,
            controller(&plane, "hustings-1", &[flags, &["--log-format=json"]].concat()).await,
        ];
        let namespace = plane.create_namespace("losses").await.unwrap();
        let kubeconfig = candidate_account(&plane, &namespace, "web").await;
        // A load balancer that fails over silently leaves connections that never answer.
        let mut config = plane.config();
        config.read_timeout = Some(ANSWER_LIMIT);
        let admin = Client::try_from(config).unwrap();
        Self { plane, controllers, namespace, kubeconfig, admin }
    }

    /// Starts a pair, the second when the first leads. So the second has not observed the creation, for which it would wait
    /// 15 s, but only a renewed Lease.
    pub(crate) async fn group(&self, lease: &str, mode: Mode, times: Times) -> Group {
        let start = |suffix: &str| {
            let name = format!("{lease}-{suffix}");
            Replica::start(&self.plane, &self.namespace, &name, self.campaign(lease, &name, mode, times))
        };
        let first = start("a");
        first.says("leading", 0).await;
        Group { mode, times, lease: lease.to_owned(), replicas: [first, start("b")] }
    }

    /// One more replica for a Lease.
    fn campaign(&self, lease: &str, name: &str, mode: Mode, times: Times) -> Command {
        let mode: &[&str] = match mode {
            Mode::Elected => &["--binary-version=1.0.0", "--fallback=false"],
            Mode::Direct => &["--direct"],
        };
        let times = times.flags();
        let flags: Vec<&str> = times.iter().map(String::as_str).chain(mode.iter().copied()).collect();
        campaign(&self.kubeconfig, &self.namespace, lease, name, &flags)
    }

    /// Waits until one of the pair leads and renews, and the other sees it; returns the term.
    pub(crate) async fn settled(&self, group: &Group) -> Term {
        let leases = Api::<Lease>::namespaced(self.admin.clone(), &self.namespace);
        let seen = std::sync::Mutex::new(Vec::new());
        let settled = async || {
            tokio::time::sleep(LOOK_AGAIN).await;
            let leader = group.leader()?;
            let lease = leases.get(&group.lease).await.ok()?;
            let token = lease.metadata.annotations?.get("hustings.io/token")?.parse::<u64>().ok();
            let renewed = lease.spec?.renew_time?;
            let mut seen = seen.lock().unwrap();
            if token == leader.token && !seen.contains(&(token, renewed.0)) {
                seen.push((token, renewed.0));
            }
            let sights = seen.iter().filter(|sight| sight.0 == leader.token).count();
            (sights >= SIGHTS).then_some(leader)
        };
        until(&format!("{} is held and renewed", group.lease), || group.log(), settled).await
    }

    /// Fails unless both controllers live, and one of them elects.
    pub(crate) async fn elects(&self, lease: &str) {
        for controller in &self.controllers {
            let log = || std::fs::read_to_string(controller.log()).unwrap();
            assert!(controller.exit_status().unwrap().is_none(), "a controller has ended:\n{}", log());
        }
        let newcomer = format!("{lease}-new");
        let command = self.campaign(lease, &newcomer, Mode::Elected, Times::millis(15_000, 10_000, 2_000));
        Replica::start(&self.plane, &self.namespace, &newcomer, command).says("leading", 0).await;
    }
}

impl Group {
    /// The present term, by the replicas' own reports.
    pub(crate) fn leader(&self) -> Option<Term> {
        let last = self.replicas.iter().filter_map(|replica| replica.terms().pop());
        last.into_iter().find(|term| term.until.is_none())
    }

    pub(crate) fn each(&self) -> [&Replica; 2] {
        self.replicas.each_ref()
    }

    pub(crate) fn log(&self) -> String {
        self.each().map(Replica::log).join("\n")
    }
}

/// From one instant to a later one; zero if it is not later.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}
