//! Tests of the view of a Lease, step by step.

use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_core::election::{Config, EvidenceConfig, Observation, Source};
use hustings_core::model::{CandidateKey, ContainerRecord, PodRecord, WireTime};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher;
use serde_json::{Value, json};

mod acts;
mod next;
mod past;
mod problems;

use super::*;
use crate::controller::stores::Stored;
use crate::controller::watched::Scope;
use crate::serve::page::{Severity, Span, SpanKind};

/// 2026-01-02T03:00:00Z.
const EPOCH: i64 = 1_767_322_800_000_000;

/// One Lease with its candidates, what the page shows of it, and the time.
struct Scene {
    election: Election,
    display: Display,
    writer: Writer<Stored<ReadCandidate>>,
    stores: Stores,
    shown: Option<ElectionView>,
    version: u64,
    uid: &'static str,
    now: Now,
}

impl Scene {
    fn new(candidates: &[Value]) -> Self {
        let (election, display) = (Election::new(Config::default(), "n", "l"), Display::new());
        let now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(EPOCH) };
        let (writer, mut stores) = (Writer::default(), Stores::default());
        stores.add_candidates(&Scope::Cluster, writer.as_reader());
        let mut scene = Self { election, display, writer, stores, shown: None, version: 100, uid: "u", now };
        for candidate in candidates {
            scene.candidate(candidate);
        }
        scene
    }

    fn pass(&mut self, millis: i64) {
        let Now { moment, wall } = self.now;
        self.now = Now {
            moment: Moment::from_micros(moment.as_micros() + millis * 1_000),
            wall: WireTime::from_micros(wall.as_micros() + millis * 1_000),
        };
    }

    /// Observes a version of a candidate.
    fn candidate(&mut self, candidate: &Value) {
        let candidate = Stored::of(ReadCandidate::from_json(candidate.clone())).unwrap();
        self.writer.apply_watcher_event(&watcher::Event::Apply(candidate.clone()));
        let report = self.election.observe_watched_candidate(self.now, candidate.content.record);
        self.display.observed(self.now, &report, &self.election);
    }

    fn observe(&mut self, observation: Observation) {
        let report = self.election.observe(self.now, observation);
        self.display.observed(self.now, &report, &self.election);
    }

    /// Observes a version of the Lease with this holder, session, transitions, and more annotations.
    fn lease(&mut self, holder: &str, session: &str, transitions: u32, more: &Value) {
        self.version += 1;
        let mut annotations = json!({ "hustings.io/session": session, "hustings.io/token": transitions.to_string(),
            "hustings.io/strategy": "OldestEmulationVersion" });
        annotations.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let lease = ReadLease::from_json(json!({
            "metadata": {
                "namespace": "n", "name": "l", "uid": self.uid, "resourceVersion": self.version.to_string(),
                "labels": { "hustings.io/enrolled": "true" }, "annotations": annotations,
            },
            "spec": {
                "holderIdentity": holder, "leaseTransitions": transitions,
                "leaseDurationSeconds": if holder.is_empty() { 1 } else { 15 },
                "acquireTime": "2026-01-02T02:59:00.000000Z", "renewTime": MicroTime(self.now.wall),
            },
        }));
        self.observe(Observation::Lease { record: lease.record, source: Source::Watch });
    }

    fn decided(&mut self) -> ElectionView {
        self.decide();
        self.view(true)
    }

    fn on_standby(&mut self) -> ElectionView {
        self.view(false)
    }

    fn decide(&mut self) {
        let decision = self.election.decide(self.now);
        self.display.decided(self.now, &decision);
    }

    fn changes_with_time(&self) -> bool {
        self.display.changes_with_time(self.now.moment, &self.election)
    }

    fn new_view(&mut self, decides: bool) -> Option<ElectionView> {
        if !decides {
            self.display.judge_copy(self.now, &self.election);
        }
        self.display.view(&LeaseKey::new("n", "l"), self.now, &self.election, &self.stores)
    }

    fn view(&mut self, decides: bool) -> ElectionView {
        if let Some(view) = self.new_view(decides) {
            self.shown = Some(view);
        }
        self.shown.clone().unwrap()
    }
}

/// A decision with this verdict on the Lease.
fn decision(lease: LeaseVerdict) -> Decision {
    let now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(EPOCH) };
    Decision { lease, ..Election::new(Config::default(), "n", "l").decide(now) }
}

fn candidate(name: &str, emulation: &str, status: &Value) -> Value {
    json!({
        "metadata": { "namespace": "n", "name": name, "uid": name, "resourceVersion": "50" },
        "spec": { "leaseName": "l", "binaryVersion": "1.32.0", "emulationVersion": emulation, "priority": 3 },
        "status": status,
    })
}

fn two() -> [Value; 2] {
    [candidate("a", "1.31.0", &json!({})), candidate("b", "1.32.0", &json!({}))]
}

/// Each span as `FROM-UNTIL WHAT`, in seconds after [`EPOCH`], the newest first.
fn timeline(view: &ElectionView) -> Vec<String> {
    let seconds = |time: MicroTime| (time.0.as_micros() - EPOCH) / 1_000_000;
    let shown = |Span { from, until, kind }: &Span| {
        let until = until.map(|until| seconds(until).to_string()).unwrap_or_default();
        let what = match kind {
            SpanKind::Term { holder, .. } => holder.clone(),
            SpanKind::Gap { cause } => cause.clone(),
        };
        format!("{}-{until} {what}", seconds(*from))
    };
    view.timeline.iter().map(shown).collect()
}

fn texts(view: &ElectionView) -> Vec<&str> {
    view.problems.iter().map(|problem| problem.text.as_str()).collect()
}

#[test]
fn a_held_lease_shows_its_holder_and_why_it_leads_and_the_next_in_line() {
    let mut scene = Scene::new(&two());
    scene.lease("a", "s/1/15", 7, &json!({}));
    let view = scene.decided();
    assert_eq!((view.state, view.severity, view.holder.as_deref()), ("held", Severity::Ok, Some("a")));
    assert_eq!(view.since.map(|since| since.0.to_string()).as_deref(), Some("2026-01-02T02:59:00Z"));
    assert_eq!(view.why, "a ranks 1st of 2, before b: it emulates 1.31.0, and b emulates 1.32.0.");
    assert_eq!(
        view.next.as_ref().map(|next| (next.name.as_str(), next.preferred, next.live)),
        Some(("b", false, false))
    );
    assert_eq!((view.term, view.token.as_deref()), (7, Some("7")));
    let shown: Vec<_> =
        view.candidates.iter().map(|candidate| (candidate.rank, candidate.name.as_str(), candidate.state)).collect();
    assert_eq!(shown, [(Some(1), "a", "Holder"), (Some(2), "b", "Unproven")]);
    assert_eq!((view.candidates[1].binary_version.as_str(), view.candidates[1].priority), ("1.32.0", 3));
    assert_eq!(timeline(&view), ["-60- a"], "the holder says since when");
    assert!(view.candidates.iter().all(|candidate| !candidate.native));
    assert_eq!(Scene::new(&two()).decided().term, 0, "there is no Lease yet");
}

#[test]
fn a_renewal_alone_makes_no_view() {
    let mut excluded = two();
    excluded[1]["metadata"]["annotations"] = json!({ "hustings.io/exclude": "2026-01-02T04:00:00Z: drain" });
    for (decides, all) in [(true, two()), (false, two()), (true, excluded.clone()), (false, excluded)] {
        let mut scene = Scene::new(&all);
        let renew = |scene: &mut Scene| {
            scene.lease("a", "s/1/15", 7, &json!({}));
            if decides {
                scene.decide();
            }
            scene.new_view(decides)
        };
        let first = renew(&mut scene).unwrap();
        scene.pass(2_000);
        assert_eq!(
            renew(&mut scene).as_ref().unwrap_or(&first),
            &first,
            "the first renewal proves that the holder lives"
        );
        for _ in 0..10 {
            scene.pass(2_000);
            assert_eq!(renew(&mut scene), None);
        }
    }
}

#[test]
fn any_change_other_than_a_renewal_makes_a_view() {
    let mut excluded = two();
    excluded[1]["metadata"]["annotations"] = json!({ "hustings.io/exclude": "2026-01-02T03:00:09Z: drain" });
    for decides in [true, false] {
        let mut scene = Scene::new(&excluded);
        let renew = |scene: &mut Scene| {
            scene.lease("a", "s/1/15", 7, &json!({}));
            if decides { scene.decided() } else { scene.on_standby() }
        };
        assert_eq!(renew(&mut scene).acts.len(), 1);
        scene.pass(8_000);
        assert_eq!(scene.new_view(decides).map(|view| view.problems.len()), Some(1), "it is silent");
        assert_eq!(renew(&mut scene).problems, [], "it lives");
        scene.pass(2_000);
        assert_eq!(renew(&mut scene).acts, [], "the exclusion has ended");
        let mut upgraded = candidate("b", "1.31.5", &json!({}));
        upgraded["metadata"]["resourceVersion"] = json!("60");
        scene.candidate(&upgraded);
        assert_eq!(renew(&mut scene).candidates[1].emulation_version.as_deref(), Some("1.31.5"));
    }
}

#[test]
fn a_hand_over_is_a_gap_from_the_grant_to_the_take_up() {
    let mut scene = Scene::new(&two());
    scene.lease("b", "s/1/15", 7, &json!({}));
    scene.pass(5_000);
    scene.lease("b", "s/1/15", 7, &json!({ "hustings.io/preferred-holder": "a" }));
    let view = scene.decided();
    assert_eq!(view.next.map(|next| (next.name, next.preferred)), Some(("a".to_owned(), true)));
    assert!(scene.changes_with_time(), "the holder may ignore the request");
    scene.lease("a", "open", 8, &json!({}));
    let view = scene.decided();
    assert_eq!(texts(&view)[0], "The elected candidate has not taken up the Lease yet.");
    assert_eq!((view.state, view.why.as_str()), ("granted", "Elected; has not taken up the grant yet."));
    scene.pass(1_000);
    scene.lease("a", "s/1/15", 8, &json!({}));
    let view = scene.decided();
    assert_eq!(timeline(&view), ["6- a", "5-6 the holder handed over", "-60-5 b"]);
}

#[test]
fn the_next_in_line_is_the_candidate_that_the_election_would_choose_if_the_holder_died() {
    let dead = json!({ "state": "Unresponsive", "message": "Did not answer." });
    let mut all = vec![candidate("dead", "1.31.0", &dead)];
    all.extend(two());
    let mut scene = Scene::new(&all);
    scene.lease("b", "s/1/15", 7, &json!({}));
    let next = |view: ElectionView| view.next.map(|next| (next.name, next.preferred));
    assert_eq!(next(scene.on_standby()), Some(("a".to_owned(), false)));
    scene.lease("b", "s/1/15", 7, &json!({ "hustings.io/hold": "works" }));
    let paused = scene.on_standby();
    assert_eq!((paused.severity, next(paused)), (Severity::Warning, None), "nobody is elected during a pause");
    scene.lease("b", "s/1/15", 7, &json!({}));
    scene.decided();
    scene.lease("b", "s/1/15", 7, &json!({ "hustings.io/preferred-holder": "a" }));
    let view = scene.decided();
    let place = "b ranks 3rd of 3, behind a: it emulates 1.32.0, and a emulates 1.31.0.";
    assert_eq!(view.why, format!("{place} Why not a? The holder was asked to hand over to this candidate."));
    assert_eq!(next(view), Some(("a".to_owned(), true)));
}

#[test]
fn a_holder_is_ranked_among_the_candidates_that_still_exist() {
    let mut all = vec![candidate("better", "1.30.0", &json!({}))];
    all.extend(two());
    let mut scene = Scene::new(&all);
    scene.lease("a", "s/1/15", 7, &json!({}));
    assert!(scene.decided().why.starts_with("a ranks 2nd of 3, behind better: it emulates 1.31.0"));
    let better = CandidateKey::hustings("better");
    scene.observe(Observation::CandidateMissing { candidate: better, source: Source::Watch });
    assert_eq!(scene.view(true).why, "a ranks 1st of 2, before b: it emulates 1.31.0, and b emulates 1.32.0.");
}

#[test]
fn a_silent_holder_is_first_a_warning_and_then_a_gap_since_its_last_renewal() {
    for decides in [true, false] {
        let mut scene = Scene::new(&two());
        scene.lease("a", "s/1/15", 7, &json!({}));
        let view = |scene: &mut Scene| if decides { scene.decided() } else { scene.on_standby() };
        view(&mut scene);
        scene.pass(7_000);
        assert!(!scene.changes_with_time());
        scene.pass(1_000);
        assert!(scene.changes_with_time());
        let silent = view(&mut scene);
        assert_eq!(texts(&silent)[0], "The holder a has stopped renewing. The Lease expires unless it renews.");
        let problem = &silent.problems[0];
        let times = [problem.since, problem.until].map(|time| time.unwrap().0.as_micros() - EPOCH);
        assert_eq!((problem.severity, times), (Severity::Warning, [0, 15_015_000]));
        scene.pass(1_000);
        assert_eq!(view(&mut scene).problems[0], *problem, "time alone changes nothing");
        scene.pass(7_000);
        let expired = view(&mut scene);
        assert_eq!((expired.state, expired.severity), ("unheld", Severity::Warning));
        assert_eq!((expired.holder.as_ref(), expired.since.as_ref()), (None, None), "nobody leads");
        assert_eq!(timeline(&expired), ["0- the holder stopped renewing", "-60-0 a"]);
    }
}

#[test]
fn a_lease_without_a_live_candidate_is_critical() {
    let mut scene = Scene::new(&[candidate("a", "2.0.0", &json!({}))]);
    scene.lease("", "open", 7, &json!({}));
    scene.decided();
    scene.pass(60_000);
    let view = scene.decided();
    assert_eq!((view.state, view.severity), ("no-candidate", Severity::Critical));
    assert_eq!(texts(&view)[0], "No candidate can be elected: 1 not admissible.");
    assert!(texts(&view)[1].starts_with("a: emulationVersion 2.0.0 is above binaryVersion 1.32.0"), "{view:?}");
    assert_eq!((view.holder, view.next), (None, None));
}

#[test]
fn a_standby_shows_the_states_that_the_leading_controller_recorded() {
    let status = json!({ "state": "Unresponsive", "message": "Recorded." });
    let mut scene = Scene::new(&[candidate("a", "1.31.0", &json!({})), candidate("b", "1.32.0", &status)]);
    scene.lease("a", "s/1/15", 7, &json!({}));
    let view = scene.on_standby();
    assert_eq!((view.candidates[1].state, view.candidates[1].reason.as_str()), ("Unresponsive", "Recorded."));
    assert_eq!(texts(&view), ["b: Recorded.", "No other candidate could take over."]);
    assert_ne!(scene.decided().candidates[1].reason, "Recorded.", "the leading controller shows its own verdict");
    assert_eq!(scene.on_standby().candidates[1].reason, "Recorded.");
    scene.candidate(&candidate("c", "1.32.0", &json!({})));
    assert_eq!(scene.on_standby().candidates.len(), 3, "a new candidate is judged at once");
}

#[test]
fn a_holder_without_a_candidate_is_shown_and_left_alone() {
    let mut scene = Scene::new(&two());
    scene.lease("stranger\u{202e}\n", "s/1/15", 7, &json!({}));
    let view = scene.decided();
    assert_eq!((view.state, view.severity), ("foreign", Severity::Info));
    assert_eq!(view.holder.as_deref(), Some(r"stranger\u{202e}\n"));
    assert_eq!(
        view.why,
        "The holder has no admissible candidate. The controller waits until the Lease is released or expires."
    );
}

#[test]
fn a_pause_that_leaves_the_holder_alone_is_no_lack_of_candidates() {
    let mut scene = Scene::new(&two());
    scene.lease("a", "s/1/15", 7, &json!({ "hustings.io/hold": "works" }));
    let view = scene.decided();
    assert_eq!((view.next, view.problems), (None, Vec::new()));
}

#[test]
fn an_act_without_influence_on_the_election_is_shown_until_its_end() {
    let mut invalid = candidate("b", "2.0.0", &json!({}));
    invalid["metadata"]["annotations"] = json!({ "hustings.io/exclude": "2026-01-02T03:00:09Z: drain" });
    let mut later = invalid.clone();
    later["metadata"]["name"] = json!("c");
    later["metadata"]["annotations"] = json!({ "hustings.io/exclude": "2026-01-02T04:00:00Z: works" });
    let mut scene = Scene::new(&[candidate("a", "1.31.0", &json!({})), invalid, later]);
    for (seconds, ended) in [(0, 0), (8, 0), (1, 1)] {
        scene.pass(seconds * 1_000);
        scene.lease("a", "s/1/15", 7, &json!({}));
        let shown = scene.decided().acts;
        let texts: Vec<_> = shown.iter().map(|act| act.text.as_str()).collect();
        assert_eq!(texts, ["b: drain", "c: works"][ended..], "{shown:?}");
    }
}

#[test]
fn the_page_names_a_few_candidates_that_cannot_lead_and_counts_the_rest() {
    let dead = json!({ "state": "Unresponsive", "message": "No." });
    let mut all = vec![candidate("a", "1.31.0", &json!({}))];
    all.extend((0..5).map(|number| candidate(&format!("b{number}"), "1.32.0", &dead)));
    let mut scene = Scene::new(&all);
    scene.lease("a", "s/1/15", 7, &json!({}));
    let view = scene.on_standby();
    assert_eq!(texts(&view)[..4], ["b0: No.", "b1: No.", "b2: No.", "2 more candidates are Unresponsive."], "{view:?}");
}
