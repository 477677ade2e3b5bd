//! The settings that the builder rejects, and the environment variables that it uses.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response};
use hustings_core::elector::ElectorMode as CoreMode;
use kube::client::Body;
use rand::SeedableRng as _;

use super::*;
use crate::api::names::LONGEST_NAME;
use crate::elector::campaign::ElectorTask;
use crate::elector::driver::Driver;
use crate::testing::Log;

fn client() -> Client {
    let nobody = tower::service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) });
    Client::new(nobody, "default")
}

fn direct(namespace: &str, lease: &str) -> ElectorBuilder {
    Elector::direct(client(), namespace, lease)
}

fn candidate(namespace: &str, lease: &str, version: &str) -> ElectorBuilder {
    Elector::coordinated(client(), namespace, lease, version)
}

fn problems(builder: ElectorBuilder) -> Vec<SettingProblem> {
    builder.build_in(|_| None).err().map(|error| error.problems).unwrap_or_default()
}

fn named(builder: ElectorBuilder) -> String {
    builder.build_in(|_| None).ok().unwrap().leadership().identity().to_owned()
}

#[tokio::test]
async fn all_problems_are_reported_at_once() {
    let timing = Durations { renew_deadline: Duration::from_secs(15), ..Durations::default() };
    let error = candidate("Default", "my_lease", "x").timing(timing).build_in(|_| None).err().unwrap();
    assert_eq!(
        error.to_string(),
        "cannot stand for Lease Default/my_lease: namespace \"Default\" is not a valid DNS label: use the name of the \
         Lease's namespace; Lease name \"my_lease\" is not a valid DNS subdomain: use lower-case letters, digits, '-' \
         and '.'; no identity is set: set one, or set the environment variable POD_NAME by the downward API; invalid \
         candidate: binary version \"x\" is not a semantic version: use one such as 1.31.0; the renew deadline of 15s is \
         above 14.85s, which is 0.99 of the lease duration: lower it, or raise the lease duration"
    );
}

#[tokio::test]
async fn each_warning_about_the_durations_is_logged_with_the_lease() {
    let (log, _guard) = Log::begin();
    named(direct("n", "l").identity("a"));
    assert!(!log.take().contains("WARN"), "the default needs no warning");
    let seconds = Duration::from_secs;
    let timing = Durations { renew_deadline: seconds(14), request_timeout: seconds(13), ..Durations::default() };
    named(direct("n", "l").identity("a").timing(timing));
    let text = log.take();
    for warning in ["one lost renewal may cost the term", "slews a clock"] {
        let is_warning = |line: &str| line.contains("WARN") && line.contains(warning) && line.contains("lease=\"n/l\"");
        assert!(text.lines().any(is_warning), "{warning}: {text}");
    }
}

#[tokio::test]
async fn each_problem_is_found() {
    let direct = |identity: &str| direct("n", "l").identity(identity);
    let candidate = |version: &str| candidate("n", "l", version).identity("a");
    assert_eq!(problems(candidate("1.2")), []);
    assert_eq!(problems(candidate("1.2").emulation_version("")), [], "it is the binary version");
    assert_eq!(problems(direct("A_b")), []);
    assert_eq!(problems(candidate("1.2").identity("A_b")), [SettingProblem::Identity("A_b".to_owned())]);
    assert_eq!(problems(direct("")), [SettingProblem::IdentityMissing]);
    assert_eq!(problems(direct("a").key(7)), []);
    let unbounded = Durations { request_timeout: Duration::MAX, ..Durations::default() };
    assert_eq!(problems(direct("a").timing(unbounded)), []);
    for (builder, expected) in [
        (candidate("x"), "binary version \"x\" is not a semantic version: use one such as 1.31.0"),
        (candidate("1.2\n"), "version \"1.2\\n\" begins or ends with a space or a line end"),
        (candidate("1.2").emulation_version(" 1.2"), "version \" 1.2\" begins or ends with a space or a line end"),
        (
            candidate("1.2").emulation_version("1.3"),
            "emulation version 1.3.0 is above binary version 1.2.0: lower it, or raise the latter",
        ),
        (candidate("1.2").priority(-1), "priority -1 is negative: use 0 or more"),
        (
            candidate("1.2").emulation_version("y"),
            "emulation version \"y\" is not a semantic version: use one such as 1.31.0",
        ),
        (
            candidate("1.2").strategy("Mine"),
            "strategy \"Mine\" is not a strategy: use OldestEmulationVersion or domain/Name, a DNS subdomain and a name",
        ),
    ] {
        assert_eq!(problems(builder), [SettingProblem::Candidate(expected.to_owned())]);
    }
}

#[tokio::test]
async fn a_setting_of_the_other_mode_is_a_problem() {
    let direct = || direct("n", "l").identity("a");
    for (builder, expected) in [
        (direct().emulation_version("1.2"), SettingProblem::CandidateMissing("emulation version")),
        (direct().strategy("example.com/Mine"), SettingProblem::CandidateMissing("strategy")),
        (direct().priority(1), SettingProblem::CandidateMissing("priority")),
        (direct().fallback(false), SettingProblem::CandidateMissing("fallback")),
        (candidate("n", "l", "1.2").identity("a").key(7), SettingProblem::KeyOfCandidate),
    ] {
        assert_eq!(problems(builder), [expected]);
    }
}

#[tokio::test]
async fn a_candidate_of_many_elections_is_named_after_its_lease_and_its_length_is_checked() {
    let elections = Elections::new(client(), "n");
    let candidate = |lease: &str| elections.coordinated(lease, "1.2").identity("pod-1");
    assert_eq!(named(candidate("l")), "pod-1.l");
    assert_eq!(named(elections.direct("l").identity("pod-1")), "pod-1", "there is no candidate");
    let longest = "l".repeat(LONGEST_NAME - "pod-1.".len());
    assert_eq!(named(candidate(&longest)).len(), LONGEST_NAME);
    assert_eq!(problems(candidate("l").identity("")), [SettingProblem::IdentityMissing]);
    let identity = format!("pod-1.l{longest}");
    assert_eq!(problems(candidate(&format!("l{longest}"))), [SettingProblem::IdentityTooLong(identity)]);
}

#[tokio::test]
async fn the_pod_comes_from_the_environment() {
    let environment = |name: &str| match name {
        "POD_NAME" => Some("pod-1".to_owned()),
        "POD_UID" => Some("u".to_owned()),
        "POD_NAMESPACE" => Some("n".to_owned()),
        _ => None,
    };
    let mut inside = candidate("n", "l", "1.2");
    inside.host_name = Some("host".to_owned());
    let elector = inside.build_in(environment).ok().unwrap();
    assert_eq!(elector.leadership().identity(), "pod-1");
    let nomination = elector.nomination().unwrap();
    assert_eq!(nomination.pod, Some(Pod { name: "pod-1".to_owned(), uid: "u".to_owned() }));
    assert_eq!(nomination.emulation_version.as_deref(), Some("1.2"));
    let elsewhere = candidate("other", "l", "1.2").build_in(environment).ok().unwrap();
    assert_eq!(elsewhere.nomination().unwrap().pod, None, "a pod owns nothing in another namespace");
    let unknown = |name: &str| environment(name).filter(|_| name != "POD_NAMESPACE");
    let unknown = candidate("n", "l", "1.2").build_in(unknown).ok().unwrap();
    assert!(unknown.nomination().unwrap().pod.is_some(), "without a namespace, the pod is in that of the Lease");
    let mirrored = candidate("n", "l", "1.2").pod("web-node1", "0123456789abcdef0123456789abcdef");
    let mirrored = mirrored.build_in(environment).ok().unwrap();
    assert_eq!(mirrored.nomination().unwrap().pod, None, "the API server knows a static pod by another UID");
    let mut outside = direct("n", "l");
    outside.host_name = Some("host".to_owned());
    assert_eq!(outside.build_in(|_| Some(String::new())).ok().unwrap().leadership().identity(), "host");
    assert_eq!(named(direct("n", "l").enabled(false)), "unelected", "without an election no name is needed");
}

fn driver(elector: &Elector) -> &Driver {
    match &elector.task {
        ElectorTask::Campaign(driver) => driver,
        ElectorTask::Off(_) => panic!("the election is switched on"),
    }
}

#[tokio::test]
async fn a_setting_that_is_not_made_has_its_default() {
    for elector in
        [candidate("n", "l", "1.2").identity("a").build_in(|_| None), direct("n", "l").identity("a").build_in(|_| None)]
    {
        let elector = elector.ok().unwrap();
        let config = &driver(&elector).config;
        assert_eq!(
            (config.fail_open, config.keeps_on_stop, Durations::from(config.timing)),
            (FailOpen::Off, false, Durations::default())
        );
        let (Some(candidate), Some(nomination)) = (config.candidate(), config.nomination()) else { continue };
        assert!(candidate.fallback, "without a controller, the candidates elect among themselves");
        assert_eq!((&nomination.strategy, nomination.priority), (&None, None));
        assert_eq!(nomination.emulation_version.as_deref(), Some("1.2"));
    }
}

#[tokio::test]
async fn each_setting_reaches_the_elector() {
    let durations = Durations { lease_duration_seconds: 30, ..Durations::default() };
    let elector = candidate("n", "l", "1.2")
        .emulation_version("1.1")
        .strategy("OldestEmulationVersion")
        .priority(7)
        .fallback(false)
        .identity("a")
        .fail_open(FailOpen::Unbounded)
        .keep_on_stop()
        .timing(durations)
        .pod("web-0", "pod-uid")
        .rng(StdRng::seed_from_u64(1))
        .build_in(|_| None)
        .ok()
        .unwrap();
    let config = &driver(&elector).config;
    assert_eq!((config.identity.as_str(), config.lease_name.as_str()), ("a", "l"));
    assert!(!config.candidate().unwrap().fallback);
    assert_eq!((config.fail_open, config.keeps_on_stop), (FailOpen::Unbounded, true));
    assert_eq!(Durations::from(config.timing), durations);
    let random = StdRng::seed_from_u64(1).next_u64();
    assert!(config.session.contains(&format!("{random:016x}")), "{}", config.session);
    let nomination = config.nomination().unwrap();
    assert_eq!((nomination.name.as_str(), nomination.lease_name.as_str(), nomination.priority), ("a", "l", Some(7)));
    assert_eq!((nomination.binary_version.as_str(), nomination.emulation_version.as_deref()), ("1.2", Some("1.1")));
    assert_eq!((nomination.lease_duration_seconds, &nomination.session), (30, &config.session));
    assert_eq!(nomination.pod, Some(Pod { name: "web-0".to_owned(), uid: "pod-uid".to_owned() }));
    let direct = direct("n", "l").key(3).identity("a").build_in(|_| None).ok().unwrap();
    let Driver { config, key, .. } = driver(&direct);
    assert_eq!((&config.mode, key.current()), (&CoreMode::Direct, Some(3)));
    assert_eq!((config.fail_open, config.keeps_on_stop), (FailOpen::Off, false));
}

#[tokio::test]
async fn only_a_strategy_of_hustings_needs_an_emulation_version() {
    for (strategy, expected) in [("OldestEmulationVersion", Some("1.2")), ("example.com/Mine", None)] {
        let builder = candidate("n", "l", "1.2").strategy(strategy).identity("a");
        let elector = builder.build_in(|_| None).ok().unwrap();
        let nomination = elector.nomination().unwrap();
        assert_eq!(nomination.emulation_version.as_deref(), expected, "{strategy}");
        assert_eq!(nomination.strategy.as_deref(), Some(strategy));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_session_names_the_pod_and_the_container_of_the_caller_before_those_of_the_environment() {
    let unique = |name: &str| format!("{name}-{}", std::process::id());
    let environment = |name: &str| match name {
        "POD_NAME" => Some("env".to_owned()),
        "POD_UID" => Some(unique("env-uid")),
        "CONTAINER_NAME" => Some("env-container".to_owned()),
        _ => None,
    };
    let place = |builder: ElectorBuilder| {
        let elector = builder.build_in(environment).ok().unwrap();
        driver(&elector).config.session.split('.').take(2).collect::<Vec<_>>().join(".")
    };
    let bare = || direct("n", &unique("places"));
    let in_environment = unique("env-uid");
    let uid = unique("uid");
    assert_eq!(place(bare()), format!("{in_environment}.env-container"));
    assert_eq!(place(bare().container("web")), format!("{in_environment}.web"));
    assert_eq!(place(bare().pod("web-0", uid.as_str())), format!("{uid}.env-container"));
    assert_eq!(place(bare().pod("web-0", uid.as_str()).container("web")), format!("{uid}.web"));
}

#[tokio::test(start_paused = true)]
async fn the_shutdown_of_the_program_stops_each_campaign_and_the_end_of_one_stops_no_other() {
    let (store, shutdown) = (MemoryStore::new(), CancellationToken::new());
    let start = |lease| {
        let builder = Elector::direct(&store, "n", lease).identity("a").shutdown(&shutdown);
        builder.build().unwrap().start()
    };
    let (first, second) = (start("first"), start("second"));
    let other = second.leadership();
    other.wait_until_leader().await.unwrap();
    first.stop().await.unwrap();
    assert!(!shutdown.is_cancelled() && other.is_leader());
    shutdown.cancel();
    second.ended().await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_elector_in_a_known_pod_has_an_instance_lock() {
    let elector = |builder: ElectorBuilder| builder.identity("a").build_in(|_| None).ok().unwrap();
    let uid = format!("builder-{}", std::process::id());
    let lock = |namespace| elector(direct(namespace, "l").pod("a", uid.as_str())).instance_lock();
    let locks = ["n", "m"].map(lock);
    assert!(locks.iter().all(Option::is_some), "each namespace has a Lease of its own");
    assert!(lock("n").is_none(), "it is held");
    assert!(elector(direct("n", "l")).instance_lock().is_none());
}

#[tokio::test]
async fn an_elector_of_a_memory_store_draws_the_same_random_numbers_in_each_run() {
    let session = || {
        let builder = Elector::direct(&MemoryStore::new(), "n", "l").identity("a");
        driver(&builder.build_in(|_| None).ok().unwrap()).config.session.clone()
    };
    assert_eq!(session(), session());
}

#[test]
fn an_elector_that_publishes_events_is_built_outside_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (client, events) = runtime.block_on(async { (client(), client()) });
    named(Elector::direct(client, "n", "l").identity("a").events(events));
}
