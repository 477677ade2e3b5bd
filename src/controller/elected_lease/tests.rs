//! Tests of the metrics and events of one Lease.

mod pings;

use hustings_client::api::ReadCandidate;
use hustings_core::election::{EvidenceConfig, Reason};
use hustings_core::model::{ContainerEnd, History, PodRecord, RecordedStatus, SessionMark};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher;
use serde_json::json;

use super::*;
use crate::controller::status::Transitions;
use crate::controller::stores::Stored;
use crate::controller::watched::Scope;

#[test]
fn a_status_keeps_the_transition_times_of_the_last_watched_version() {
    let leading = json!({ "type": "Leading", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z",
        "reason": "", "message": "" });
    let shown = ReadCandidate::from_json(json!({
        "metadata": { "namespace": "n", "name": "a" },
        "spec": { "leaseName": "l" },
        "status": { "state": "Holder", "conditions": [leading] },
    }));
    let shown = Stored::of(shown).unwrap();
    let (mut writer, mut stores) = (Writer::default(), Stores::default());
    writer.apply_watcher_event(&watcher::Event::Apply(shown.clone()));
    stores.add_candidates(&Scope::Cluster, writer.as_reader());
    let mut lease = ElectedLease::new(&election::Config::default(), LeaseKey::new("n", "l"), false);
    lease.observe_candidate(at(0), shown.content.clone(), None);
    let patch = |name: &str| Action::PatchStatus {
        candidate: CandidateKey::hustings(name),
        uid: "u".into(),
        status: RecordedStatus::default(),
    };
    let plan = lease.plan(vec![patch("a"), patch("unknown")], &stores);
    let kept: Vec<_> = plan.statuses.iter().map(|status| (&*status.candidate.name, status.transitions)).collect();
    assert_eq!(kept, [("a", shown.content.transitions), ("unknown", Transitions::default())]);
    assert!(shown.content.transitions != Transitions::default());
}

pub(in crate::controller) fn verdict(candidate: &CandidateKey, state: CandidateState) -> CandidateVerdict {
    CandidateVerdict {
        candidate: candidate.clone(),
        rank: None,
        state,
        reason: Reason::Leads,
        responsive: None,
        answered_early: false,
        unresponsive_since: None,
        damping_count: 0,
        damped_until: None,
        forfeited: false,
    }
}

fn at(seconds: i64) -> Now {
    let micros = seconds * 1_000_000;
    Now { moment: Moment::from_micros(micros), wall: WireTime::from_micros(micros) }
}

fn lease_of(holder: &str, session: Option<&str>, version: u64) -> LeaseRecord {
    LeaseRecord {
        uid: "lease-uid".to_owned(),
        resource_version: version,
        holder: Some(holder.to_owned()),
        duration_seconds: 15,
        session: SessionMark::read(session),
        enrolled: true,
        ..LeaseRecord::default()
    }
}

/// A Lease with the candidates a and b.
fn elected_lease() -> ElectedLease {
    let mut lease = ElectedLease::new(&election::Config::default(), LeaseKey::new("n", "l"), false);
    for name in ["a", "b"] {
        let metadata = json!({ "namespace": "n", "name": name, "uid": name, "resourceVersion": "1" });
        let spec = json!({ "leaseName": "l", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" });
        let candidate = ReadCandidate::from_json(json!({ "metadata": metadata, "spec": spec }));
        lease.observe_candidate(at(0), candidate.into(), None);
    }
    lease
}

#[test]
fn a_hand_over_is_counted_published_and_measured_by_the_ending_that_the_lease_records() {
    for (ending, published, cause) in [
        ("handed over (connection closed)", Some(Cause::ConnectionClosed), "connection-closed"),
        ("handed over (work ended)", Some(Cause::WorkEnded), "work-ended"),
        ("handed over (better candidate)", None, "handed-over"),
        ("handed over", None, "handed-over"),
        // The holder died while it was asked, and its successor is the candidate that it was asked for.
        ("expired", None, "expired"),
        ("proven dead (container terminated)", None, "container-terminated"),
    ] {
        let (mut lease, (metrics, registry)) = (elected_lease(), ControllerMetrics::new());
        let term = format!("4 a from 2026-11-24T19:40:01.500Z to 2026-11-24T19:45:52.731Z: {ending}");
        let before =
            LeaseRecord { transitions: 4, preferred_holder: Some("b".to_owned()), ..lease_of("a", Some("s/1/15"), 2) };
        let after = LeaseRecord { transitions: 5, history: History::read(&term), ..lease_of("b", Some("open"), 3) };
        let changes = [before, after]
            .map(|record| lease.observe(at(1), Observation::Lease { record, source: Source::Watch }, Some(&metrics)));
        let expected = published.map(|cause| {
            let (holder, candidate) = ("a".into(), CandidateKey::hustings("b"));
            ("lease-uid".to_owned(), Event::HandedOver { holder, candidate, cause })
        });
        assert_eq!(changes.map(|change| change.handed_over), [None, expected], "{ending}");
        assert_eq!(metrics.hand_overs.get(), u64::from(ending.starts_with("handed over")), "{ending}");

        let held = |taken_up| LeaseVerdict::Held { holder: CandidateKey::hustings("b"), preferred: None, taken_up };
        lease.update(at(1).moment, &held(false), &metrics);
        lease.update(at(2).moment, &held(true), &metrics);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains(&format!("hustings_unheld_seconds_count{{cause=\"{cause}\"}} 1")), "{ending}: {text}");
        assert!(text.contains(&format!("hustings_unheld_seconds_sum{{cause=\"{cause}\"}} 1.0")), "{ending}: {text}");
    }
}

#[test]
fn only_a_change_to_the_preferred_holder_is_a_hand_over_and_each_take_up_begins_a_term() {
    let (mut lease, metrics) = (elected_lease(), ControllerMetrics::new().0);
    let preferring = |record: LeaseRecord| LeaseRecord { preferred_holder: Some("b".to_owned()), ..record };
    let mut shown = Vec::new();
    for (version, record) in (2..).zip([
        lease_of("a", Some("open"), 0),
        LeaseRecord { token: Some(1), ..lease_of("a", Some("s/1/15"), 0) },
        // A renewal.
        LeaseRecord { token: Some(1), ..lease_of("a", Some("s/1/15"), 0) },
        // The next term of the same holder.
        preferring(LeaseRecord { token: Some(2), ..lease_of("a", Some("s/2/15"), 0) }),
        lease_of("b", Some("open"), 0),
        LeaseRecord { token: Some(3), ..lease_of("b", Some("t/1/15"), 0) },
        // Without a request to hand over.
        LeaseRecord { token: Some(4), ..lease_of("a", Some("s/3/15"), 0) },
        preferring(LeaseRecord { token: Some(4), ..lease_of("a", Some("s/3/15"), 0) }),
        // A third party took the Lease.
        lease_of("stranger", None, 0),
        // Nobody holds it, and then the preferred holder.
        preferring(LeaseRecord { holder: None, ..lease_of("", Some("open"), 0) }),
        lease_of("b", Some("open"), 0),
        // The grant is taken up by a write without a token.
        lease_of("b", None, 0),
        // Another candidate writes without a grant and without a token.
        lease_of("a", None, 0),
        // The holder itself is preferred, and renews.
        LeaseRecord { preferred_holder: Some("a".to_owned()), ..lease_of("a", None, 0) },
        lease_of("a", None, 0),
    ]) {
        let record = LeaseRecord { resource_version: version, ..record };
        let observation = Observation::Lease { record, source: Source::Watch };
        let Change { began, .. } = lease.observe(at(1), observation, Some(&metrics));
        assert!(began.iter().all(|term| term.lease_uid == "lease-uid"));
        shown.push((began.map(|term| term.holder.name.to_string()), metrics.hand_overs.get()));
    }
    let began = |name: &str, hand_overs| (Some(name.to_owned()), hand_overs);
    let expected = [
        (None, 0),
        began("a", 0),
        (None, 0),
        began("a", 0),
        (None, 1),
        began("b", 1),
        began("a", 1),
        (None, 1),
        (None, 1),
        (None, 1),
        (None, 1),
        began("b", 1),
        began("a", 1),
        (None, 1),
        (None, 1),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn the_time_of_a_hand_over_without_a_term_is_measured() {
    let (mut lease, metrics) = (elected_lease(), ControllerMetrics::new().0);
    let held = |taken_up| LeaseVerdict::Held { holder: CandidateKey::hustings("a"), preferred: None, taken_up };
    lease.update(at(10).moment, &held(true), &metrics);
    assert_eq!(lease.unheld_since(), None);
    for now in [20, 21] {
        lease.update(at(now).moment, &held(false), &metrics);
        assert_eq!(lease.unheld_since(), Some(at(20).moment));
        assert_eq!(lease.sample(at(22).moment).map(|sample| (sample.held, sample.unheld.as_secs())), Some((false, 2)));
    }
    lease.update(at(23).moment, &LeaseVerdict::Foreign { holder: "x".into() }, &metrics);
    assert!(lease.sample(at(23).moment).is_some_and(|sample| sample.held), "a third party holds it");
    lease.update(at(23).moment, &held(true), &metrics);
    assert_eq!(lease.unheld_since(), None);
    lease.update(at(23).moment, &held(false), &metrics);
    lease.stand_by();
    assert_eq!(lease.unheld_since(), None, "another controller measures on");
    assert!(lease.sample(at(24).moment).is_none(), "a standby samples nothing");
}

#[test]
fn a_sample_shows_the_transitions_since_the_last_one() {
    let (mut lease, metrics) = (elected_lease(), ControllerMetrics::new().0);
    for (version, transitions, expected) in [(2, 7, 0), (3, 7, 0), (4, 9, 2)] {
        let record = LeaseRecord { transitions, ..lease_of("a", Some("s/1/15"), version) };
        lease.observe(at(1), Observation::Lease { record, source: Source::Watch }, None);
        lease.decide(at(1), &Stores::default(), &metrics);
        let sample = lease.sample(at(1).moment).unwrap();
        assert_eq!((sample.transitions, sample.new_transitions, sample.candidates), (transitions, expected, 2));
        assert!(sample.held);
    }
    lease.stand_by();
    let record = LeaseRecord { transitions: 15, ..lease_of("a", Some("s/1/15"), 5) };
    lease.observe(at(2), Observation::Lease { record, source: Source::Watch }, None);
    lease.decide(at(2), &Stores::default(), &metrics);
    assert_eq!(
        lease.sample(at(2).moment).unwrap().new_transitions,
        0,
        "the controller that led in between counts them"
    );
    assert_eq!(metrics.elections.get_or_create(&ElectionResult::NoCandidate.label()).get(), 0);
}

#[test]
fn a_plan_with_actions_contains_the_version_that_it_is_based_on() {
    let mut lease = elected_lease();
    let plan = lease.plan(vec![Action::ReadLease], &Stores::default());
    assert!(plan.current.is_none(), "no version is known");
    let observation = Observation::Lease { record: lease_of("a", Some("s/1/15"), 2), source: Source::Watch };
    lease.observe(at(1), observation, None);
    let plan = lease.plan(vec![Action::ReadLease], &Stores::default());
    assert_eq!((plan.actions.len(), plan.current.map(|record| record.resource_version)), (1, Some(2)));
    assert!(lease.plan(Vec::new(), &Stores::default()).current.is_none());
}

#[test]
fn a_lease_has_native_candidates_while_one_stands_for_it() {
    let mut lease = elected_lease();
    assert!(!lease.has_native_candidates());
    let record = CandidateRecord { kind: CandidateKind::Native, name: "c".to_owned(), ..CandidateRecord::default() };
    let candidate = WatchedCandidate { record: record.into(), transitions: Transitions::default() };
    lease.observe_candidate(at(1), candidate, None);
    assert!(lease.has_native_candidates());
    lease.remove_candidate(at(2), CandidateKey::native("c"));
    assert!(!lease.has_native_candidates());
}

#[test]
fn a_lease_without_candidates_has_no_gap() {
    let metrics = ControllerMetrics::new().0;
    let unheld = LeaseVerdict::Unheld { since: at(5).moment, cause: Unheld::Ended(Ending::Released(Cause::Unknown)) };
    for (mut lease, expected) in [
        (elected_lease(), Some(at(5).moment)),
        (ElectedLease::new(&election::Config::default(), LeaseKey::new("n", "l"), false), None),
    ] {
        lease.update(at(6).moment, &unheld, &metrics);
        assert_eq!(lease.unheld_since(), expected);
    }
}

#[test]
fn a_decision_that_finds_no_candidate_counts_once_as_an_election_without_a_result() {
    let (metrics, registry) = ControllerMetrics::new();
    let mut lease = ElectedLease::new(&election::Config::default(), LeaseKey::new("n", "l"), false);
    let metadata = json!({ "namespace": "n", "name": "a", "uid": "a", "resourceVersion": "1" });
    let spec = json!({ "leaseName": "l", "binaryVersion": "latest", "emulationVersion": "1.0.0" });
    let invalid = ReadCandidate::from_json(json!({ "metadata": metadata, "spec": spec }));
    lease.observe_candidate(at(0), invalid.into(), None);
    let free = LeaseRecord { holder: None, ..lease_of("", Some("open"), 2) };
    lease.observe(at(0), Observation::Lease { record: free, source: Source::Watch }, None);
    for now in 0..20 {
        lease.decide(at(now), &Stores::default(), &metrics);
    }
    assert_eq!(metrics.elections.get_or_create(&ElectionResult::NoCandidate.label()).get(), 1);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(text.contains("hustings_decision_seconds_count 20\n"), "{text}");
    assert_eq!(
        (lease.state(), lease.sample(at(20).moment).map(|sample| sample.held)),
        (LeaseState::NoCandidate, Some(false))
    );
}

#[test]
fn the_silence_before_evidence_of_a_death_is_measured_once() {
    let (metrics, registry) = ControllerMetrics::new();
    let evidence = EvidenceConfig { pods: true, ..EvidenceConfig::default() };
    let config = election::Config { evidence, ..election::Config::default() };
    let mut lease = ElectedLease::new(&config, LeaseKey::new("n", "l"), false);
    let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "p" });
    let metadata = json!({ "name": "a", "namespace": "n", "uid": "u", "ownerReferences": [owner] });
    let spec = json!({ "leaseName": "l", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" });
    lease.observe_candidate(
        at(0),
        ReadCandidate::from_json(json!({ "metadata": metadata, "spec": spec })).into(),
        None,
    );
    for seconds in [0, 2] {
        let times = (Some(at(0).wall), Some(at(seconds).wall));
        let record = LeaseRecord {
            acquire_time: times.0,
            renew_time: times.1,
            ..lease_of("a", Some("p.c.n.1/1/15"), 2 + u64::try_from(seconds).unwrap())
        };
        lease.observe(at(seconds), Observation::Lease { record, source: Source::Watch }, None);
    }
    lease.decide(at(6), &Stores::default(), &metrics);
    let end = ContainerEnd { container: "c".to_owned(), finished_at: Some(at(3).wall), reason: String::new() };
    let pod = PodRecord { uid: "p".to_owned(), ends: vec![end], ..PodRecord::default() };
    lease.observe(at(6), Observation::Pod { record: Some(pod) }, None);
    for seconds in [6, 7] {
        lease.decide(at(seconds), &Stores::default(), &metrics);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let sum = r#"hustings_evidence_silence_seconds_sum{cause="container-terminated"} 4.0"#;
        assert!(text.lines().any(|line| line == sum), "{text}");
    }
}

#[test]
fn a_term_that_begins_in_a_recreated_lease_is_reported_on_the_new_one() {
    let mut lease = elected_lease();
    let of = |uid: &str, holder: &str, token, version| LeaseRecord {
        uid: uid.to_owned(),
        token: Some(token),
        ..lease_of(holder, Some("s/1/15"), version)
    };
    let began = [of("old", "a", 1, 2), of("new", "b", 2, 3)].map(|record| {
        let change = lease.observe(at(1), Observation::Lease { record, source: Source::Watch }, None);
        change.began.map(|term| (term.lease_uid, term.holder.name.to_string()))
    });
    assert_eq!(began, [None, Some(("new".to_owned(), "b".to_owned()))]);
}

#[test]
fn a_sample_shows_how_long_the_holder_has_been_asked_to_hand_over() {
    let (mut lease, metrics) = (elected_lease(), ControllerMetrics::new().0);
    for (version, preferred_holder) in [(2, None), (3, Some("b".to_owned()))] {
        let record = LeaseRecord { preferred_holder, ..lease_of("a", Some("s/1/15"), version) };
        lease.observe(at(10), Observation::Lease { record, source: Source::Watch }, None);
    }
    lease.decide(at(10), &Stores::default(), &metrics);
    let sample = lease.sample(at(13).moment).unwrap();
    assert_eq!((sample.preferred.as_secs(), sample.unheld.as_secs()), (3, 0));
}
