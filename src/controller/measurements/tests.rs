//! Tests of what is counted and measured about one Lease.

mod pings;

use hustings_client::api::ReadCandidate;
use hustings_core::election::{self, EvidenceConfig, Observation, Source};
use hustings_core::model::{
    CandidateKey, CandidateRecord, ContainerEnd, ContainerRecord, Evidence, History, LeaseRecord, Now, PodRecord,
    SessionMark, WireTime,
};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::*;

/// One Lease, and what is measured of it.
struct Scene {
    key: LeaseKey,
    election: Election,
    measurements: Measurements,
    registry: Registry,
}

impl Scene {
    /// A Lease with these candidates.
    fn new(config: &election::Config, candidates: &[Value]) -> Self {
        let (metrics, registry) = ControllerMetrics::new();
        let measurements = Measurements::new(metrics);
        let election = Election::new(config.clone(), "n", "l");
        let mut scene = Self { key: LeaseKey::new("n", "l"), election, measurements, registry };
        for candidate in candidates {
            let record = ReadCandidate::from_json(candidate.clone()).record;
            scene.observe(0, Observation::Candidate { record, source: Source::Watch });
        }
        scene
    }

    /// A Lease with the candidates a and b.
    fn of_two() -> Self {
        Self::new(&election::Config::default(), &["a", "b"].map(|name| candidate(name, "1.0.0", &json!([]))))
    }

    fn observe(&mut self, seconds: i64, observation: Observation) -> Report {
        let report = self.election.observe(at(seconds), observation);
        self.measurements.observed(&report);
        report
    }

    fn lease(&mut self, seconds: i64, record: LeaseRecord) -> Report {
        self.observe(seconds, Observation::Lease { record, source: Source::Watch })
    }

    fn decide(&mut self, seconds: i64) -> Decision {
        let decision = self.election.decide(at(seconds));
        self.measurements.decided(&self.key, at(seconds).moment, &self.election, &decision);
        decision
    }

    /// Measures a decision with this verdict.
    fn judge(&mut self, seconds: i64, lease: LeaseVerdict) {
        let decision = Decision { lease, ..self.election.clone().decide(at(seconds)) };
        self.measurements.decided(&self.key, at(seconds).moment, &self.election, &decision);
    }

    fn sample(&mut self, seconds: i64) -> Option<LeaseSample> {
        let measured = self.measurements.leases.get_mut(&self.key)?;
        measured.sample(&self.key, &self.election, at(seconds).moment)
    }

    fn unheld_since(&self) -> Option<Moment> {
        self.measurements.leases.get(&self.key)?.unheld_since()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

fn candidate(name: &str, version: &str, owners: &Value) -> Value {
    let metadata =
        json!({ "namespace": "n", "name": name, "uid": name, "resourceVersion": "1", "ownerReferences": owners });
    json!({ "metadata": metadata, "spec": { "leaseName": "l", "binaryVersion": version, "emulationVersion": "1.0.0" } })
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

fn held(holder: &str, taken_up: bool) -> LeaseVerdict {
    LeaseVerdict::Held { holder: CandidateKey::hustings(holder), preferred: None, taken_up }
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
        let mut scene = Scene::of_two();
        let term = format!("4 a from 2026-11-24T19:40:01.500Z to 2026-11-24T19:45:52.731Z: {ending}");
        let before =
            LeaseRecord { transitions: 4, preferred_holder: Some("b".to_owned()), ..lease_of("a", Some("s/1/15"), 2) };
        let after = LeaseRecord { transitions: 5, history: History::read(&term), ..lease_of("b", Some("open"), 3) };
        let events = [before, after].map(|record| scene.lease(1, record).events);
        let expected = published.map(|cause| {
            let (holder, candidate) = ("a".into(), CandidateKey::hustings("b"));
            Event::HandedOver { holder, candidate, cause }
        });
        assert_eq!(events, [vec![], expected.into_iter().collect()], "{ending}");
        let hand_overs = scene.measurements.metrics.hand_overs.get();
        assert_eq!(hand_overs, u64::from(ending.starts_with("handed over")), "{ending}");

        scene.judge(1, held("b", false));
        scene.judge(2, held("b", true));
        let text = scene.text();
        assert!(text.contains(&format!("hustings_unheld_seconds_count{{cause=\"{cause}\"}} 1")), "{ending}: {text}");
        assert!(text.contains(&format!("hustings_unheld_seconds_sum{{cause=\"{cause}\"}} 1.0")), "{ending}: {text}");
    }
}

#[test]
fn only_a_change_to_the_preferred_holder_is_a_hand_over_and_each_take_up_begins_a_term() {
    let mut scene = Scene::of_two();
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
        let report = scene.lease(1, LeaseRecord { resource_version: version, ..record });
        let began =
            |event: Event| if let Event::BecameLeader { holder } = event { Some(holder.to_string()) } else { None };
        shown.push((report.events.into_iter().find_map(began), scene.measurements.metrics.hand_overs.get()));
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
    let mut scene = Scene::of_two();
    scene.judge(10, held("a", true));
    assert_eq!(scene.unheld_since(), None);
    for now in [20, 21] {
        scene.judge(now, held("a", false));
        assert_eq!(scene.unheld_since(), Some(at(20).moment));
        assert_eq!(scene.sample(22).map(|sample| (sample.held, sample.unheld.as_secs())), Some((false, 2)));
    }
    scene.judge(23, LeaseVerdict::Foreign { holder: "x".into() });
    assert!(scene.sample(23).is_some_and(|sample| sample.held), "a third party holds it");
    scene.judge(23, held("a", true));
    assert_eq!(scene.unheld_since(), None);
    scene.judge(23, held("a", false));
    scene.measurements.clear();
    assert_eq!(scene.unheld_since(), None, "another controller measures on");
    assert!(scene.sample(24).is_none(), "a standby samples nothing");
}

#[test]
fn a_sample_shows_the_transitions_since_the_last_one() {
    let mut scene = Scene::of_two();
    for (version, transitions, expected) in [(2, 7, 0), (3, 7, 0), (4, 9, 2)] {
        scene.lease(1, LeaseRecord { transitions, ..lease_of("a", Some("s/1/15"), version) });
        scene.decide(1);
        let sample = scene.sample(1).unwrap();
        assert_eq!((sample.transitions, sample.new_transitions, sample.candidates), (transitions, expected, 2));
        assert!(sample.held);
    }
    scene.measurements.clear();
    scene.lease(2, LeaseRecord { transitions: 15, ..lease_of("a", Some("s/1/15"), 5) });
    scene.decide(2);
    assert_eq!(scene.sample(2).unwrap().new_transitions, 0, "the controller that led in between counts them");
    assert_eq!(scene.measurements.metrics.elections.get_or_create(&ElectionResult::NoCandidate.label()).get(), 0);
}

#[test]
fn a_lease_without_candidates_has_no_gap() {
    let unheld = LeaseVerdict::Unheld { since: at(5).moment, cause: Unheld::Ended(Ending::Released(Cause::Unknown)) };
    for (mut scene, expected) in
        [(Scene::of_two(), Some(at(5).moment)), (Scene::new(&election::Config::default(), &[]), None)]
    {
        scene.judge(6, unheld.clone());
        assert_eq!(scene.unheld_since(), expected);
    }
}

#[test]
fn a_decision_that_finds_no_candidate_counts_once_as_an_election_without_a_result() {
    let mut scene = Scene::new(&election::Config::default(), &[candidate("a", "latest", &json!([]))]);
    scene.lease(0, LeaseRecord { holder: None, ..lease_of("", Some("open"), 2) });
    for now in 0..20 {
        scene.decide(now);
    }
    let metrics = &scene.measurements.metrics;
    assert_eq!(metrics.elections.get_or_create(&ElectionResult::NoCandidate.label()).get(), 1);
    assert_eq!(scene.measurements.state(&scene.key), LeaseStateLabel::NoCandidate);
    assert_eq!(scene.sample(20).map(|sample| sample.held), Some(false));
}

#[test]
fn the_silence_before_evidence_of_a_death_is_measured_once() {
    let evidence = EvidenceConfig { pods: true, nodes: false };
    let config = election::Config { evidence, ..election::Config::default() };
    let owner = json!([{ "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "p" }]);
    let mut scene = Scene::new(&config, &[candidate("a", "1.0.0", &owner)]);
    for seconds in [0, 2] {
        let times = (Some(at(0).wall), Some(at(seconds).wall));
        let version = 2 + u64::try_from(seconds).unwrap();
        let record =
            LeaseRecord { acquire_time: times.0, renew_time: times.1, ..lease_of("a", Some("p.c.n.1/1/15"), version) };
        scene.lease(seconds, record);
    }
    scene.decide(6);
    let containers = [ContainerRecord::ended("c", [ContainerEnd::at(at(3).wall, "Error")])].into();
    let pod = PodRecord { uid: "p".into(), containers, ..PodRecord::default() };
    scene.observe(6, Observation::Pod { record: pod.into() });
    for seconds in [6, 7] {
        scene.decide(seconds);
        let text = scene.text();
        let cause = Evidence::ContainerTerminated.as_str();
        let sum = format!(r#"hustings_evidence_silence_seconds_sum{{cause="{cause}"}} 4.0"#);
        assert!(text.lines().any(|line| line == sum), "{text}");
    }
}

#[test]
fn a_sample_shows_how_long_the_holder_has_been_asked_to_hand_over() {
    let mut scene = Scene::of_two();
    for (version, preferred_holder) in [(2, None), (3, Some("b".to_owned()))] {
        scene.lease(10, LeaseRecord { preferred_holder, ..lease_of("a", Some("s/1/15"), version) });
    }
    scene.decide(10);
    let sample = scene.sample(13).unwrap();
    assert_eq!((sample.preferred.as_secs(), sample.unheld.as_secs()), (3, 0));
}
