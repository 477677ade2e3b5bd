//! Cases that need an exact instant, which a transcript cannot specify. One elector gets one observation after another.

use std::time::Duration;

use hustings_core::elector::{
    Action, AttemptId, Draw, Durations, Elector, ElectorMode, Observation, Outcome, Source, Timer, Timing,
};
use hustings_core::model::{
    CandidateRecord, CandidateState, Cause, LeaseRecord, LeaseWrite, Moment, Now, Observed, Purpose, Request,
    SessionMark, Set, WireTime,
};

use hustings_lab::{LEASE, config, coordinated};

pub(crate) struct Steps {
    pub(crate) elector: Elector,
    pub(crate) now: Now,
}

impl Steps {
    pub(crate) fn new(mode: ElectorMode) -> Self {
        Self::with(mode, Durations::default())
    }

    pub(crate) fn with(mode: ElectorMode, durations: Durations) -> Self {
        let now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(0) };
        Self { elector: Elector::new(config("a", "s-a", mode, Timing::new(durations).unwrap()), now), now }
    }

    /// A standby whose candidate exists.
    pub(crate) fn coordinated() -> Self {
        let mut steps = Self::new(coordinated());
        let attempt = steps.sent(|request| matches!(request, Request::CreateCandidate { .. })).unwrap();
        steps.observe(Observation::CandidateWritten { attempt, outcome: Outcome::Landed(candidate(LEASE)) });
        steps
    }

    pub(crate) fn at(&mut self, moment: Moment) {
        self.now = Now { moment, wall: WireTime::from_micros(moment.as_micros()) };
    }

    pub(crate) fn observe(&mut self, observation: Observation) {
        self.elector.observe(self.now, observation);
    }

    pub(crate) fn see(&mut self, record: LeaseRecord) {
        self.observe(Observation::Lease { record, source: Source::Watch });
    }

    pub(crate) fn answer(&mut self, attempt: AttemptId, outcome: Outcome<LeaseRecord>) {
        self.observe(Observation::LeaseWritten { attempt, outcome });
    }

    /// Claims the free Lease, and returns the version with which the term begins.
    pub(crate) fn lead(&mut self) -> LeaseRecord {
        self.see(free(1));
        let (attempt, write) = self.write().unwrap();
        let held = write.applied_to(&free(1), 2);
        self.answer(attempt, Outcome::Landed(held.clone()));
        held
    }

    pub(crate) fn actions(&mut self) -> Vec<Action> {
        self.elector.decide(self.now, Draw(0)).actions
    }

    /// Decides, and returns the first of these requests.
    pub(crate) fn sent(&mut self, is_one: fn(&Request) -> bool) -> Option<AttemptId> {
        self.actions().into_iter().find_map(|action| match action {
            Action::Send { attempt, request } if is_one(&request) => Some(attempt),
            _ => None,
        })
    }

    pub(crate) fn read(&mut self) -> Option<AttemptId> {
        self.sent(|request| matches!(request, Request::ReadLease { .. }))
    }

    pub(crate) fn create(&mut self) -> Option<AttemptId> {
        self.sent(|request| matches!(request, Request::CreateLease { .. }))
    }

    pub(crate) fn write(&mut self) -> Option<(AttemptId, LeaseWrite)> {
        self.actions().into_iter().find_map(|action| match action {
            Action::Send { attempt, request: Request::WriteLease { write, .. } } => Some((attempt, *write)),
            _ => None,
        })
    }
}

pub(crate) fn at(seconds: i64) -> Moment {
    Moment::from_micros(seconds * 1_000_000)
}

pub(crate) fn free(resource_version: u64) -> LeaseRecord {
    LeaseRecord { resource_version, session: SessionMark::Open, duration_seconds: 1, ..LeaseRecord::default() }
}

fn candidate(lease_name: &str) -> CandidateRecord {
    let nomination = config("a", "s-a", coordinated(), Timing::default()).nomination().unwrap();
    let record = nomination.candidate(WireTime::from_micros(0));
    CandidateRecord { lease_name: lease_name.to_owned(), resource_version: 4, ..record }
}

pub(crate) fn held(resource_version: u64, key: i64) -> LeaseRecord {
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
    let mut steps = Steps::new(coordinated());
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
    let mut steps = Steps::new(ElectorMode::Direct);
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
fn a_holder_that_has_just_expired_is_not_asked_to_hand_over() {
    let mut steps = Steps::new(ElectorMode::Direct);
    steps.see(held(1, 3));
    steps.at(steps.elector.lease().unwrap().expires_at());
    steps.observe(Observation::Key(Some(5)));
    assert_eq!(steps.write().unwrap().1.purpose, Purpose::Claim);
}

#[test]
fn no_instant_is_owned_twice_by_a_wall_clock_that_goes_back() {
    let mut steps = Steps::new(ElectorMode::Direct);
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
    steps.now = Now { moment: at(4), wall: wall(5) };
    let (attempt, _) = steps.write().unwrap();
    assert_eq!(steps.elector.decide(steps.now, Draw(0)).range.map(|range| range.end), Some(wall(9)));
    steps.answer(attempt, Outcome::Unknown);
    steps.now = Now { moment: at(60), wall: wall(1) };
    let Some((_, write)) = steps.write() else { panic!("no claim") };
    let Set::To(renewed) = write.renew_time else { panic!("no renew time") };
    assert!(renewed >= wall(9), "{renewed:?}: it was its own up to 9 s");
}

#[test]
fn a_request_to_one_holder_does_not_delay_the_request_to_the_next() {
    let mut steps = Steps::new(ElectorMode::Direct);
    steps.observe(Observation::Key(Some(5)));
    steps.see(held(1, 3));
    let (attempt, _) = steps.write().unwrap();
    steps.answer(attempt, Outcome::Refused);
    steps.at(at(4));
    let other = SessionMark::read(Some("s-c/1/15"));
    steps.see(LeaseRecord { holder: Some("c".to_owned()), session: other, transitions: 1, ..held(2, 4) });
    assert_eq!(steps.write().unwrap().1.purpose, Purpose::Prefer);
}

#[test]
fn a_stop_without_a_term_waits_for_no_successor() {
    let mut steps = Steps::coordinated();
    steps.see(LeaseRecord { holder: Some("b".to_owned()), ..free(5) });
    steps.observe(Observation::Stop(Cause::Stopped));
    assert_ne!(steps.elector.decide(steps.now, Draw(0)).timer, Some(Timer::Successor));
}

#[test]
fn unanswered_reads_are_awaited_and_then_sent_again() {
    let mut steps = Steps::coordinated();
    steps.see(held(5, 3));
    assert_eq!(steps.actions(), []);
    for seconds in [4, 9] {
        steps.at(at(seconds));
        let actions = steps.actions();
        assert!(
            matches!(
                &actions[..],
                [
                    Action::Send { request: Request::ReadCandidate { .. }, .. },
                    Action::Send { request: Request::ReadLease { .. }, .. }
                ]
            ),
            "{seconds} s: {actions:?}"
        );
    }
    let mut direct = Steps::new(ElectorMode::Direct);
    direct.at(at(2));
    for _ in 0..2 {
        let decision = direct.elector.decide(direct.now, Draw(0));
        assert_eq!((decision.timer, decision.deadline), (Some(Timer::RequestTimeout), Some(at(7))));
    }
    direct.at(at(3));
    direct.see(held(1, 3));
    let decision = direct.elector.decide(direct.now, Draw(0));
    assert_eq!(decision.timer, Some(Timer::RequestTimeout), "a version from the watch does not answer the read");
}

#[test]
fn a_range_begins_with_its_term_if_the_record_does_not_show_the_end_of_the_former_range() {
    let mut steps = Steps::new(ElectorMode::Direct);
    steps.at(at(5));
    let record = LeaseRecord { token: Some(3), ..free(4) };
    steps.see(record.clone());
    let (attempt, write) = steps.write().unwrap();
    steps.answer(attempt, Outcome::Landed(write.applied_to(&record, 5)));
    let range = steps.elector.decide(steps.now, Draw(0)).range.unwrap();
    assert_eq!(range.start, WireTime::from_micros(5_000_000));
}

#[test]
fn an_elector_does_not_ask_another_holder_of_its_own_name() {
    let mut steps = Steps::new(ElectorMode::Direct);
    steps.observe(Observation::Key(Some(5)));
    steps.see(LeaseRecord { holder: Some("a".to_owned()), ..held(1, 3) });
    assert!(steps.write().is_none());
}

#[test]
fn at_most_32_notes_wait_for_a_decision() {
    let mut steps = Steps::new(ElectorMode::Direct);
    for version in 1..40 {
        let session = SessionMark::read(Some(&format!("s-{version}/1/15")));
        steps.see(LeaseRecord { holder: Some("a".to_owned()), session, ..held(version, 3) });
    }
    assert_eq!(steps.elector.decide(steps.now, Draw(0)).notes.len(), 32);
}

#[test]
fn candidates_of_other_leases_in_a_list_do_not_count() {
    let mut steps = Steps::coordinated();
    steps.at(at(2));
    let read = steps.read().unwrap();
    steps.observe(Observation::LeaseMissing { source: Source::Read(read) });
    assert_eq!(steps.actions(), []);
    steps.at(at(27));
    let list = steps.sent(|request| matches!(request, Request::ListCandidates { .. }));
    let mut holder = CandidateRecord { name: "b".to_owned(), priority: 9, ..candidate("other") };
    holder.status.state = Some(CandidateState::Holder);
    let records = Some(vec![candidate(LEASE), holder]);
    steps.observe(Observation::Candidates { attempt: list.unwrap(), records });
    steps.actions();
    steps.at(steps.now.moment.after(Duration::from_millis(500)));
    assert!(steps.create().is_some());
}
