//! Cases that need an exact instant, which a transcript cannot specify. One elector gets one observation after another.

use hustings_core::elector::{Action, AttemptId, Draw, Durations, Elector, Mode, Observation, Outcome, Source, Timer};
use hustings_core::model::{
    CandidateRecord, Cause, LeaseRecord, LeaseWrite, Moment, Now, Observed, Purpose, SessionMark, Set, WireTime,
};

use hustings_lab::{LEASE, config};

struct Steps {
    elector: Elector,
    now: Now,
}

impl Steps {
    fn new(mode: Mode) -> Self {
        let now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(0) };
        Self { elector: Elector::new(config("a", "s-a", mode, Durations::default()), now), now }
    }

    fn at(&mut self, moment: Moment) {
        self.now = Now { moment, wall: WireTime::from_micros(moment.as_micros()) };
    }

    fn observe(&mut self, observation: Observation) {
        self.elector.observe(self.now, observation);
    }

    fn see(&mut self, record: LeaseRecord) {
        self.observe(Observation::Lease { record, source: Source::Watch });
    }

    fn answer(&mut self, attempt: AttemptId, outcome: Outcome<LeaseRecord>) {
        self.observe(Observation::LeaseWritten { attempt, outcome });
    }

    /// Claims the free Lease, and returns the version with which the term begins.
    fn lead(&mut self) -> LeaseRecord {
        self.see(free(1));
        let (attempt, write) = self.write().unwrap();
        let held = write.applied_to(&free(1), 2);
        self.answer(attempt, Outcome::Landed(held.clone()));
        held
    }

    fn actions(&mut self) -> Vec<Action> {
        self.elector.decide(self.now, Draw(0)).actions
    }

    fn read(&mut self) -> Option<AttemptId> {
        self.actions().into_iter().find_map(|action| match action {
            Action::ReadLease(attempt) => Some(attempt),
            _ => None,
        })
    }

    fn write(&mut self) -> Option<(AttemptId, LeaseWrite)> {
        self.actions().into_iter().find_map(|action| match action {
            Action::WriteLease { attempt, write } => Some((attempt, *write)),
            _ => None,
        })
    }
}

fn at(seconds: i64) -> Moment {
    Moment::from_micros(seconds * 1_000_000)
}

fn free(resource_version: u64) -> LeaseRecord {
    LeaseRecord { resource_version, session: SessionMark::Open, duration_seconds: 1, ..LeaseRecord::default() }
}

fn held(resource_version: u64, key: i64) -> LeaseRecord {
    let session = SessionMark::read(Some("s-b/1/15"));
    LeaseRecord {
        holder: Some("b".to_owned()),
        session,
        duration_seconds: 15,
        key: Some(key),
        ..free(resource_version)
    }
}

#[test]
fn the_newest_observation_is_reported() {
    let mut steps = Steps::new(Mode::Coordinated);
    assert_eq!((steps.elector.lease(), steps.elector.candidate_stands_for()), (None, None));
    steps.see(free(3));
    assert_eq!(steps.elector.lease().map(Observed::record), Some(&free(3)));
    for (lease_name, stands_for) in [("other", Some("other")), (LEASE, None)] {
        let resource_version = steps.elector.candidate_stands_for().map_or(4, |_| 5);
        let lease_name = lease_name.to_owned();
        let record =
            CandidateRecord { name: "a".to_owned(), lease_name, resource_version, ..CandidateRecord::default() };
        steps.observe(Observation::Candidate { record, source: Source::Watch });
        assert_eq!(steps.elector.candidate_stands_for(), stands_for);
    }
}

#[test]
fn each_decision_names_the_timer_that_it_waits_for() {
    let mut steps = Steps::new(Mode::Direct);
    let mut timers = Vec::new();
    let mut note = |steps: &mut Steps| {
        let decision = steps.elector.decide(steps.now, Draw(0));
        let seconds = decision.deadline.map_or(0.0, |deadline| deadline.since(steps.now.moment).as_secs_f64());
        timers.push((decision.timer.map_or("none", Timer::as_str), seconds));
    };
    note(&mut steps);
    // Reads fail.
    for (at, attempt) in [(2, 1), (7, 2), (12, 3), (17, 4)] {
        steps.at(Moment::from_micros(at * 1_000_000));
        note(&mut steps);
        steps.observe(Observation::ReadFailed(AttemptId(attempt)));
        note(&mut steps);
    }
    // The Lease is held, and then free: it is claimed.
    steps.see(held(1, 3));
    note(&mut steps);
    steps.see(free(2));
    let (attempt, write) = steps.write().unwrap();
    note(&mut steps);
    steps.answer(attempt, Outcome::Landed(write.applied_to(&free(2), 3)));
    note(&mut steps);
    let (read, pending) = (("read", 2.0), ("request-timeout", 5.0));
    let (third, fourth) = (("failure-pause", 4.0), ("failure-pause", 8.0));
    let held_and_led = [("poll", 4.0), pending, ("renewal", 2.0)];
    assert_eq!(timers[..9], [read, pending, read, pending, read, pending, third, pending, fourth]);
    assert_eq!(timers[9..], held_and_led);
}

#[test]
fn three_conflicts_in_a_row_are_followed_by_another_attempt_at_once() {
    for is_shown_first in [false, true] {
        let mut steps = Steps::new(Mode::Direct);
        let mut version = 1;
        for seconds in [0, 3, 6] {
            steps.at(at(seconds));
            steps.see(free(version));
            let mut written = 0;
            while let Some((attempt, _)) = steps.write() {
                written += 1;
                assert!(written < 9, "it does not rest");
                version += 1;
                if is_shown_first {
                    steps.see(free(version));
                }
                steps.answer(attempt, Outcome::Conflict);
                steps.see(free(version));
            }
            assert_eq!(written, 4, "at {seconds} s");
        }
    }
}

#[test]
fn a_holder_also_waits_after_more_conflicts_than_three() {
    let mut steps = Steps::new(Mode::Direct);
    let mut held = steps.lead();
    steps.at(at(2));
    for written in 1..=4 {
        let (attempt, write) = steps.write().unwrap();
        assert_eq!(write.purpose, Purpose::Renew, "{written}");
        held.resource_version += 1;
        steps.answer(attempt, Outcome::Conflict);
        steps.see(held.clone());
    }
    let actions = steps.actions();
    assert!(matches!(actions[..], [Action::ReadLease(_)]), "another client is at fault: {actions:?}");
    steps.at(at(4));
    assert!(steps.write().is_some());
}

#[test]
fn a_hand_over_request_that_met_a_conflict_is_sent_again() {
    let mut steps = Steps::new(Mode::Direct);
    steps.observe(Observation::Key(Some(5)));
    steps.see(held(1, 3));
    for version in [1, 2] {
        let (attempt, write) = steps.write().unwrap();
        assert_eq!((write.purpose, write.resource_version), (Purpose::Prefer, version));
        steps.answer(attempt, Outcome::Conflict);
        steps.see(held(version + 1, 3));
    }
    let (attempt, _) = steps.write().unwrap();
    steps.answer(attempt, Outcome::Refused);
    steps.see(held(4, 3));
    steps.at(Moment::from_micros(4_000_000));
    assert!(steps.write().is_none(), "whatever else becomes of it, it is put once");
}

#[test]
fn a_holder_that_has_just_expired_is_not_asked_to_hand_over() {
    let mut steps = Steps::new(Mode::Direct);
    steps.see(held(1, 3));
    steps.at(steps.elector.lease().unwrap().expires_at());
    steps.observe(Observation::Key(Some(5)));
    assert_eq!(steps.write().unwrap().1.purpose, Purpose::Claim);
}

#[test]
fn an_answer_to_an_unknown_request_is_ignored() {
    let mut steps = Steps::new(Mode::Direct);
    steps.see(held(1, 3));
    assert_eq!(steps.actions(), []);
    steps.at(Moment::from_micros(3_000_000));
    steps.observe(Observation::LeaseMissing { source: Source::Read(AttemptId(77)) });
    assert_eq!(steps.actions(), []);
    steps.observe(Observation::LeaseMissing { source: Source::Watch });
    assert!(matches!(steps.actions().as_slice(), [Action::ReadLease(_)]));
}

#[test]
fn no_instant_is_owned_twice_by_a_wall_clock_that_goes_back() {
    let mut steps = Steps::new(Mode::Direct);
    let wall = |seconds: i64| WireTime::from_micros(seconds * 1_000_000);
    steps.see(free(1));
    let (attempt, write) = steps.write().unwrap();
    let claimed = write.applied_to(&free(1), 2);
    steps.answer(attempt, Outcome::Landed(claimed.clone()));
    steps.now = Now { moment: at(1), wall: wall(9) };
    steps.observe(Observation::Resign);
    steps.actions();
    steps.observe(Observation::WorkStopped);
    let (attempt, write) = steps.write().unwrap();
    assert_eq!((write.purpose, write.renew_time), (Purpose::Release, Set::To(wall(9))));
    // The release never succeeds, and the Lease expires.
    steps.answer(attempt, Outcome::Unknown);
    steps.now = Now { moment: at(60), wall: wall(1) };
    let Some((_, write)) = steps.write() else { panic!("no claim") };
    let Set::To(renewed) = write.renew_time else { panic!("no renew time") };
    assert!(renewed >= wall(9), "{renewed:?}: it was its own up to 9 s");
}

#[test]
fn a_request_to_one_holder_does_not_delay_the_request_to_the_next() {
    let mut steps = Steps::new(Mode::Direct);
    steps.observe(Observation::Key(Some(5)));
    steps.see(held(1, 3));
    let (attempt, _) = steps.write().unwrap();
    steps.answer(attempt, Outcome::Refused);
    steps.at(Moment::from_micros(4_000_000));
    let other = SessionMark::read(Some("s-c/1/15"));
    steps.see(LeaseRecord { holder: Some("c".to_owned()), session: other, transitions: 1, ..held(2, 4) });
    assert_eq!(steps.write().unwrap().1.purpose, Purpose::Prefer);
}

#[test]
fn an_answer_does_not_revive_a_term_that_has_just_expired() {
    let mut steps = Steps::new(Mode::Direct);
    let held = steps.lead();
    steps.at(at(6));
    let (attempt, write) = steps.write().unwrap();
    steps.at(at(10));
    steps.answer(attempt, Outcome::Landed(write.applied_to(&held, 3)));
    assert_eq!(steps.elector.decide(steps.now, Draw(0)).leading, None);
}

#[test]
fn a_claim_of_unknown_outcome_begins_no_term_once_the_lease_was_missing() {
    let mut steps = Steps::new(Mode::Direct);
    steps.at(at(3));
    steps.see(free(1));
    let (attempt, write) = steps.write().unwrap();
    steps.answer(attempt, Outcome::Unknown);
    steps.at(at(4));
    steps.observe(Observation::LeaseMissing { source: Source::Watch });
    let read = steps.read().unwrap();
    steps.observe(Observation::LeaseMissing { source: Source::Read(read) });
    steps.see(write.applied_to(&free(1), 2));
    assert_eq!(steps.elector.decide(steps.now, Draw(0)).leading, None, "the watch lags behind");
}

#[test]
fn a_creation_of_unknown_outcome_is_followed_by_a_read() {
    let mut steps = Steps::new(Mode::Direct);
    steps.at(at(2));
    let read = steps.read().unwrap();
    steps.observe(Observation::LeaseMissing { source: Source::Read(read) });
    let [Action::CreateLease(creation)] = steps.actions()[..] else { panic!("no creation") };
    steps.answer(creation, Outcome::Unknown);
    assert!(steps.read().is_some());
}

#[test]
fn an_answer_that_a_newer_version_overtook_is_followed_by_a_read() {
    let mut steps = Steps::new(Mode::Direct);
    steps.at(at(3));
    steps.see(free(1));
    let (attempt, write) = steps.write().unwrap();
    steps.see(held(9, 3));
    steps.answer(attempt, Outcome::Landed(write.applied_to(&free(1), 2)));
    assert!(steps.read().is_some());
}

#[test]
fn a_read_that_was_sent_before_a_conflict_or_a_404_does_not_answer_it() {
    for outcome in [Outcome::Conflict, Outcome::Missing] {
        let mut steps = Steps::new(Mode::Direct);
        steps.see(held(1, 3));
        assert_eq!(steps.actions(), []);
        steps.at(at(12));
        let read = steps.read().unwrap();
        steps.at(steps.elector.lease().unwrap().expires_at());
        let (attempt, _) = steps.write().unwrap();
        steps.answer(attempt, outcome);
        steps.observe(Observation::Lease { record: held(1, 3), source: Source::Read(read) });
        let mut actions = steps.actions();
        steps.at(at(16));
        actions.extend(steps.actions());
        assert!(matches!(actions[..], [Action::ReadLease(_)]), "it does not know the reason yet: {actions:?}");
    }
}

#[test]
fn a_stop_without_a_term_waits_for_no_successor() {
    let mut steps = Steps::new(Mode::Coordinated);
    let [Action::CreateCandidate { attempt, .. }] = steps.actions()[..] else { panic!("no creation") };
    let record = CandidateRecord { lease_name: LEASE.to_owned(), resource_version: 4, ..CandidateRecord::default() };
    steps.observe(Observation::CandidateWritten { attempt, outcome: Outcome::Landed(record) });
    steps.see(LeaseRecord { holder: Some("b".to_owned()), ..free(5) });
    steps.observe(Observation::Stop(Cause::Stopped));
    assert_ne!(steps.elector.decide(steps.now, Draw(0)).timer, Some(Timer::Successor));
}

#[test]
fn unanswered_reads_are_awaited_and_then_sent_again() {
    let mut steps = Steps::new(Mode::Coordinated);
    let [Action::CreateCandidate { attempt, .. }] = steps.actions()[..] else { panic!("no creation") };
    let record = CandidateRecord { lease_name: LEASE.to_owned(), resource_version: 4, ..CandidateRecord::default() };
    steps.observe(Observation::CandidateWritten { attempt, outcome: Outcome::Landed(record) });
    steps.see(held(5, 3));
    assert_eq!(steps.actions(), []);
    for seconds in [4, 9] {
        steps.at(at(seconds));
        let actions = steps.actions();
        assert!(matches!(actions[..], [Action::ReadCandidate(_), Action::ReadLease(_)]), "{seconds} s: {actions:?}");
    }
    let mut direct = Steps::new(Mode::Direct);
    direct.at(at(2));
    for _ in 0..2 {
        let decision = direct.elector.decide(direct.now, Draw(0));
        assert_eq!((decision.timer, decision.deadline), (Some(Timer::RequestTimeout), Some(at(7))));
    }
}

#[test]
fn a_range_begins_with_its_term_if_the_record_does_not_show_the_end_of_the_former_range() {
    let mut steps = Steps::new(Mode::Direct);
    steps.at(at(5));
    let record = LeaseRecord { token: Some(3), ..free(4) };
    steps.see(record.clone());
    let (attempt, write) = steps.write().unwrap();
    steps.answer(attempt, Outcome::Landed(write.applied_to(&record, 5)));
    let range = steps.elector.decide(steps.now, Draw(0)).range.unwrap();
    assert_eq!(range.start, WireTime::from_micros(5_000_000));
}
