//! Tests of a whole controller in virtual time, against a server that stores objects.

mod namespaces;
mod server;
mod silence;
mod stuck;

use std::sync::Mutex;
use std::time::Duration;

use futures::future::BoxFuture;
use hustings_client::WriteGate;
use hustings_client::testing::TokioClock;
use hustings_core::model::{Moment, WireTime};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use self::server::{Shared, add_candidate, candidate_of, client, server};
use super::*;
use crate::cli::testing::controller as config_of;
use crate::serve::health::Health;
use crate::serve::metrics::{self, FailureLabels};

/// Longer than any election and any release.
const LONG: Duration = Duration::from_mins(1);

const OWN: &str = "/apis/coordination.k8s.io/v1/namespaces/n/leases/hustings-controller";
const WEB: &str = "/apis/coordination.k8s.io/v1/namespaces/n/leases/web";
const ELECTION_CONTROLLER: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/leader-election-controller";

/// A controller that runs with these flags.
struct Running {
    server: Shared,
    health: Health,
    metrics: ControllerMetrics,
    registry: Registry,
    gate: Arc<Mutex<Option<WriteGate>>>,
    stop: CancellationToken,
    elected: JoinHandle<anyhow::Result<()>>,
}

/// The surroundings of a controller of this name, with its gate and its registry.
fn surroundings(
    server: &Shared,
    name: &str,
    clock: Arc<dyn hustings_client::clock::Clock>,
) -> (Surroundings, Arc<Mutex<Option<WriteGate>>>, Registry) {
    let (gated, gate) = (client(server, true), Arc::<Mutex<Option<WriteGate>>>::default());
    let (made, (metrics, registry)) = (Arc::clone(&gate), ControllerMetrics::new());
    let surroundings = Surroundings {
        identity: name.to_owned(),
        namespace: "n".to_owned(),
        leases: client(server, false),
        gated: Box::new(move |gate| {
            *made.lock().unwrap() = Some(gate.clone());
            Ok(gate.gate(gated.clone()))
        }),
        clock,
        rng: StdRng::seed_from_u64(0),
        health: Health::new(),
        metrics,
        page: None,
    };
    (surroundings, gate, registry)
}

fn start(server: Shared, flags: &str, clock: Arc<dyn hustings_client::clock::Clock>) -> Running {
    let (surroundings, gate, registry) = surroundings(&server, "hustings-0", clock);
    let (health, metrics) = (surroundings.health.clone(), surroundings.metrics.clone());
    let stop = CancellationToken::new();
    let (config, stopped) = (config_of(flags).unwrap(), stop.clone());
    let elected = tokio::spawn(async move { elect(&config, surroundings, stopped).await });
    Running { server, health, metrics, registry, gate, stop, elected }
}

impl Running {
    fn holder_of(&self, path: &str) -> Option<String> {
        Some(self.server.lock().unwrap().objects.get(path)?["spec"]["holderIdentity"].as_str()?.to_owned())
    }

    /// Waits until the Lease has this holder.
    async fn wait_for_holder(&self, path: &str, holder: &str) {
        let held = async {
            while self.holder_of(path).as_deref() != Some(holder) {
                sleep(Duration::from_millis(100)).await;
            }
        };
        let is_held = timeout(LONG, held).await.is_ok();
        assert!(
            is_held,
            "{path} is held by {:?}; writes: {:?}",
            self.holder_of(path),
            self.server.lock().unwrap().writes
        );
    }

    /// Whether each write of this Lease passed the gate.
    fn passed_the_gate(&self, lease: &str) -> Vec<bool> {
        let writes = &self.server.lock().unwrap().writes;
        writes.iter().filter(|(_, path)| path == lease).map(|(is_gated, _)| *is_gated).collect()
    }

    /// The checks that do not pass.
    fn failing(&self) -> Vec<String> {
        self.health.readiness().checks.into_iter().filter(|check| !check.ok).map(|check| check.name).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn writes_of_elections_pass_the_gate_and_the_own_lease_is_released_last() {
    let running = start(server(), "", TokioClock::shared());
    running.wait_for_holder(WEB, "a").await;
    let gated = running.passed_the_gate(WEB);
    assert!(gated.len() >= 2 && gated.iter().all(|is_gated| *is_gated), "{gated:?}");
    let own = running.passed_the_gate(OWN);
    assert!(own.len() >= 2 && !own.contains(&true), "its gate opens only with it: {own:?}");
    assert_eq!((running.failing(), running.metrics.leading.get()), (Vec::new(), 1));
    let reviewed = running.server.lock().unwrap().named_reviews.clone();
    assert!(reviewed.iter().any(|name| name == "hustings-controller"), "{reviewed:?}");

    running.stop.cancel();
    timeout(LONG, running.elected).await.expect("it ends").unwrap().unwrap();
    let server = running.server.lock().unwrap();
    assert_eq!(server.objects[OWN]["spec"]["holderIdentity"], "");
    assert_eq!(server.writes.last().map(|(_, path)| path.as_str()), Some(OWN));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_answers_delays_the_stop_by_the_limit_of_the_release() {
    let running = start(server(), "--leader-elect-lease-duration=1h", TokioClock::shared());
    running.wait_for_holder(WEB, "a").await;
    running.server.lock().unwrap().silent = Some("/");
    let stopped = Instant::now();
    running.stop.cancel();
    timeout(LONG, running.elected).await.expect("it ends").unwrap().unwrap();
    let limit = Duration::from_secs(5);
    assert!((limit..limit * 2).contains(&stopped.elapsed()), "it tries to release: {:?}", stopped.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_standby_is_ready_and_writes_nothing_until_the_leader_releases_the_own_lease() {
    let server = server();
    let own = json!({ "metadata": { "namespace": "n", "name": "hustings-controller",
        "annotations": { "hustings.io/session": "s/1/15" } },
        "spec": { "holderIdentity": "hustings-1", "leaseDurationSeconds": 15 } });
    server.lock().unwrap().put(OWN, own.clone());
    let running = start(server, "--native --native-stand-in", TokioClock::shared());
    for renewed in 10..60 {
        sleep(Duration::from_secs(5)).await;
        let mut own = own.clone();
        own["spec"]["renewTime"] = json!(format!("2026-01-01T00:00:{renewed}.000000Z"));
        running.server.lock().unwrap().put(OWN, own);
    }
    assert_eq!((running.failing(), running.metrics.leading.get()), (Vec::new(), 0));
    assert_eq!(running.server.lock().unwrap().writes, []);
    let mut released = own;
    released["spec"]["holderIdentity"] = json!("");
    released["metadata"]["annotations"]["hustings.io/session"] = json!("open");
    running.server.lock().unwrap().put(OWN, released);
    running.wait_for_holder(WEB, "a").await;
}

#[tokio::test(start_paused = true)]
async fn only_a_stand_in_takes_the_lease_of_kubernetes_controller_and_through_the_gate() {
    let theirs = "apiserver-1";
    for (flags, holder, has_check) in
        [("", theirs, false), ("--native", theirs, true), ("--native --native-stand-in", "hustings-0", true)]
    {
        let running = start(server(), flags, TokioClock::shared());
        for renewed in 10..60 {
            sleep(Duration::from_secs(1)).await;
            if running.holder_of(ELECTION_CONTROLLER).as_deref() == Some(theirs) {
                let mut server = running.server.lock().unwrap();
                let mut lease = server.objects[ELECTION_CONTROLLER].clone();
                lease["spec"]["renewTime"] = json!(format!("2026-01-01T00:00:{renewed}.000000Z"));
                server.put(ELECTION_CONTROLLER, lease);
            }
        }
        assert_eq!(running.holder_of(ELECTION_CONTROLLER).as_deref(), Some(holder), "{flags}");
        let gated = running.passed_the_gate(ELECTION_CONTROLLER);
        assert_eq!((gated.contains(&true), gated.contains(&false)), (holder != theirs, false), "{flags}");
        let annotations =
            running.server.lock().unwrap().objects[ELECTION_CONTROLLER]["metadata"]["annotations"].clone();
        assert_eq!(annotations.to_string().contains("n/hustings-controller"), holder != theirs, "{annotations}");
        let native = running.health.readiness().checks.into_iter().find(|check| check.name == "native");
        let message = native.map(|check| check.message.unwrap());
        assert_eq!(message.is_some(), has_check, "{flags}");
        let elector = if holder == theirs { theirs } else { "this controller elects" };
        assert!(message.is_none_or(|message| message.starts_with(elector)), "{flags}");
        assert_eq!(running.failing(), [] as [String; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_own_lease_has_the_name_and_the_durations_of_the_flags_and_no_election() {
    let flags = "--leader-elect-resource-namespace=other --leader-elect-resource-name=own \
        --leader-elect-lease-duration=40s \
        --leader-elect-renew-deadline=30s --leader-elect-retry-period=10s";
    let server = server();
    add_candidate(&server, "other", "own");
    let running = start(server, flags, TokioClock::shared());
    let own = "/apis/coordination.k8s.io/v1/namespaces/other/leases/own";
    running.wait_for_holder(own, "hustings-0").await;
    running.wait_for_holder(WEB, "a").await;
    sleep(LONG).await;
    assert_eq!(running.server.lock().unwrap().objects[own]["spec"]["leaseDurationSeconds"], 40);
    assert!(!running.passed_the_gate(own).contains(&true));
    assert!(running.passed_the_gate(&candidate_of("other")).is_empty(), "its candidate is not pinged");
}

/// A clock whose next timer panics once this is switched on.
struct Broken(Arc<dyn hustings_client::clock::Clock>, Arc<Mutex<bool>>);

impl hustings_client::clock::Clock for Broken {
    fn now(&self) -> Moment {
        self.0.now()
    }

    fn wall(&self) -> WireTime {
        self.0.wall()
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        assert!(!*self.1.lock().unwrap(), "planned");
        self.0.sleep_until(moment)
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_whose_elector_dies_ends_with_an_error() {
    let broken = Arc::default();
    let running = start(server(), "", Arc::new(Broken(TokioClock::shared(), Arc::clone(&broken))));
    running.wait_for_holder(WEB, "a").await;
    *broken.lock().unwrap() = true;
    let error = timeout(LONG, running.elected).await.expect("it ends").unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the elector of the controllers' own Lease died");
}

#[tokio::test(start_paused = true)]
async fn a_controller_one_of_whose_tasks_panics_releases_its_lease_and_ends_with_an_error() {
    let reviews = "/apis/authorization.k8s.io/";
    let leases = "/apis/coordination.k8s.io/v1/leases";
    for (flags, panicking) in [("", reviews), ("--leader-elect=false", reviews), ("--leader-elect=false", leases)] {
        let server = server();
        server.lock().unwrap().panicking = Some(leases).filter(|_| panicking == leases);
        let running = start(server, flags, TokioClock::shared());
        if panicking == reviews {
            running.wait_for_holder(WEB, "a").await;
            running.server.lock().unwrap().panicking = Some(reviews);
        }
        let error = timeout(10 * LONG, running.elected).await.expect("it ends").unwrap().unwrap_err();
        assert_eq!(error.to_string(), "a task of the controller died");
        assert!(format!("{error:#}").contains("planned"), "{error:#}");
        let own = running.server.lock().unwrap().objects.get(OWN).map(|own| own["spec"]["holderIdentity"].clone());
        assert_eq!(own, flags.is_empty().then(|| json!("")), "the next controller need not wait");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_elections_take_as_long_as_those_of_the_own_lease_at_most() {
    let flags = "--leader-elect-lease-duration=6s --leader-elect-renew-deadline=4s --leader-elect-retry-period=1s";
    let server = server();
    server.lock().unwrap().silent = Some(WEB);
    let running = start(server, flags, TokioClock::shared());
    running.wait_for_holder(OWN, "hustings-0").await;
    sleep(Duration::from_secs(3)).await;
    let labels = FailureLabels::new(metrics::RequestKind::ReadLease, metrics::FailureReason::Timeout);
    assert_eq!(
        running.metrics.request_failures.get_or_create(&labels).get(),
        1,
        "half of the renew deadline has passed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_request_brings_the_next_check_of_the_permissions_forward() {
    let running = start(server(), "", TokioClock::shared());
    running.wait_for_holder(WEB, "a").await;
    sleep(LONG).await;
    let reviews = || running.server.lock().unwrap().reviews;
    let before = reviews();
    sleep(LONG).await;
    assert_eq!(reviews(), before, "nothing has changed");
    // The electee never renews, so the controller grants the Lease again and again.
    running.server.lock().unwrap().forbidden = Some(WEB);
    sleep(LONG).await;
    assert!(reviews() > before);
}

#[tokio::test(start_paused = true)]
async fn requests_about_native_candidates_go_to_the_version_that_the_server_serves() {
    let (server, path) = (server(), "/apis/coordination.k8s.io/v1alpha2/namespaces/n/leasecandidates/b");
    let candidate = json!({ "metadata": { "namespace": "n", "name": "b" },
        "spec": { "leaseName": "scheduler", "binaryVersion": "1.32.0", "emulationVersion": "1.32.0",
            "strategy": "OldestEmulationVersion", "renewTime": "2023-11-14T22:13:20.000000Z" } });
    server.lock().unwrap().put(path, candidate);
    server.lock().unwrap().objects.remove(ELECTION_CONTROLLER);
    let running = start(server, "--native", TokioClock::shared());
    running.wait_for_holder(&WEB.replace("web", "scheduler"), "b").await;
    assert!(running.passed_the_gate(path).contains(&true), "it was pinged");
}

#[test]
fn the_page_is_for_this_machine_unless_the_flag_says_otherwise() {
    for (ui, address, expected) in [
        (None, "127.0.0.1", Some(Hosts::Loopback)),
        (Some(true), "127.0.0.1", Some(Hosts::Loopback)),
        (Some(false), "127.0.0.1", None),
        (None, "0.0.0.0", None),
        (Some(true), "0.0.0.0", Some(Hosts::Any)),
        (None, "::1", Some(Hosts::Loopback)),
    ] {
        assert_eq!(hosts_of_page(ui, address.parse().unwrap()), expected, "{ui:?} {address}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_flags_decide_which_checks_a_controller_has_and_what_it_lists() {
    let (hustings, kubernetes) = ("hustings.io/v1alpha1", "coordination.k8s.io/v1alpha2");
    for (flags, checks, lists) in [
        (
            "",
            &["crd", "leasecandidates", "leases", "own-lease", "permissions", "second-controller", "writes"][..],
            vec![format!("/apis/{hustings}/leasecandidates"), "/apis/coordination.k8s.io/v1/leases".to_owned()],
        ),
        (
            "--native --leader-elect=false --watch-namespaces=n",
            &[
                "crd",
                "leasecandidates/n",
                "leases/n",
                "namespaces",
                "native",
                "native-leasecandidates/n",
                "permissions",
                "second-controller",
                "writes",
            ],
            vec![
                format!("/apis/{hustings}/namespaces/n/leasecandidates"),
                format!("/apis/{kubernetes}/namespaces/n/leasecandidates"),
                "/apis/coordination.k8s.io/v1/namespaces/n/leases".to_owned(),
            ],
        ),
    ] {
        let running = start(server(), flags, TokioClock::shared());
        running.wait_for_holder(WEB, "a").await;
        let all = running.health.readiness().checks.into_iter().map(|check| check.name);
        assert_eq!(all.collect::<Vec<_>>(), checks, "{flags}");
        assert_eq!(running.server.lock().unwrap().lists, lists.into_iter().collect(), "{flags}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_gate_closes_a_whole_request_before_the_own_lease_is_lost() {
    let running = start(server(), "", TokioClock::shared());
    running.wait_for_holder(WEB, "a").await;
    running.server.lock().unwrap().silent = Some(OWN);
    let gate = running.gate.lock().unwrap().clone().unwrap();
    let step = Duration::from_millis(10);
    let gate_closes = async {
        while gate.is_open() {
            sleep(step).await;
        }
        Instant::now()
    };
    let closed = timeout(LONG, gate_closes).await.expect("it closes");
    assert_eq!(running.metrics.leading.get(), 1);
    let stands_by = async {
        while running.metrics.leading.get() == 1 {
            sleep(step).await;
        }
    };
    timeout(LONG, stands_by).await.expect("it stands by");
    let request = Timing::default().request_timeout();
    assert!(closed.elapsed() + step >= request, "{:?} is shorter than {request:?}", closed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn events_name_the_controller_that_reports_them() {
    let running = start(server(), "", TokioClock::shared());
    running.wait_for_holder(WEB, "a").await;
    sleep(LONG).await;
    let server = running.server.lock().unwrap();
    assert!(!server.events.is_empty());
    assert!(server.events.iter().all(|event| event["reportingInstance"] == "hustings-0"), "{:?}", server.events);
}

#[tokio::test(start_paused = true)]
async fn a_controller_elects_in_each_namespace_of_the_flag_and_measures_its_own_lease() {
    let server = server();
    add_candidate(&server, "m", "web");
    let running = start(server, "--watch-namespaces=n,m", TokioClock::shared());
    running.wait_for_holder(WEB, "a").await;
    running.wait_for_holder(&WEB.replace("/n/", "/m/"), "a").await;
    assert_eq!(running.failing(), [] as [String; 0]);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &running.registry).unwrap();
    assert!(text.contains(r#"lease_held{lease="n/hustings-controller"} 1"#), "{text}");
}
