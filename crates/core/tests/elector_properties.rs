//! Properties of electors under every disturbance: clocks that differ, requests that are delayed or lost, freezes,
//! crashes and namesakes. People edit and delete the Lease within the premises of S1.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "elector_properties/observations.rs"]
mod observations;
#[path = "elector_properties/schedule.rs"]
mod schedule;

use std::time::Duration;

use hustings_core::elector::{Draw, Durations, Elector, ElectorMode, Note, Observation, Timing};
use hustings_core::model::{
    Cause, LeaseRecord, Moment, Now, Observed, SessionMark, UNDECLARED_DURATION_SECONDS, WireTime,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use hustings_lab::{Checks, Fate, Lab, News, Replica, WorkStops, config, coordinated};

use observations::{durations, observations};
use schedule::{Edit, Schedule, Step, schedules};

/// Three processes; the third has the name of the first.
const NAMES: [&str; 3] = ["a", "b", "a"];

const MOST_EVENTS_PER_STEP: usize = 3_000;

/// The long lease of 30 s, with the clock allowance of 1 in 1000, and a margin for slow clocks.
const WHOLE_LEASE_MICROS: i64 = 30_200_000;

/// A controller that follows the rules of expiry: it grants only a free Lease.
#[derive(Default)]
struct Controller {
    observed: Option<Observed>,
    missing_since: Option<i64>,
}

impl Controller {
    fn look(&mut self, lab: &Lab) {
        let now = Moment::from_micros(lab.now_micros);
        match (lab.lease(), &mut self.observed) {
            (Some(lease), Some(observed)) => _ = observed.observe(lease.clone(), now),
            (Some(lease), observed @ None) => *observed = Some(Observed::first(lease.clone(), now)),
            (None, observed) => *observed = None,
        }
        self.missing_since = match lab.lease() {
            Some(_) => None,
            None => Some(self.missing_since.unwrap_or(lab.now_micros)),
        };
    }

    fn grant(&mut self, lab: &mut Lab, electee: &str) {
        self.look(lab);
        let is_free = match (&self.observed, self.missing_since) {
            (Some(observed), _) => observed.is_free(Moment::from_micros(lab.now_micros)),
            // A person may have set a duration of 40 s before the Lease was deleted.
            (None, since) => since.is_some_and(|since| lab.now_micros - since >= 41_000_000),
        };
        if is_free {
            lab.grant(electee);
        }
    }
}

struct Run {
    lab: Lab,
    controller: Controller,
    sessions: u32,
    deleted_at: i64,
    mistake: Option<Mistake>,
}

/// A mistake of the electors in a negative control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    CountsFromAnswer,
    ReclaimsWithoutLock,
}

impl Run {
    fn new(schedule: &Schedule, mistake: Option<Mistake>) -> Self {
        let mut lab = Lab::checked();
        if let Some(checks) = &mut lab.checks {
            checks.counts_from_answer = mistake == Some(Mistake::CountsFromAnswer);
        }
        lab.chance = Box::new(lottery(schedule.seed));
        let mut fate = lottery(schedule.seed ^ 0x5bd1_e995);
        let badness = schedule.badness;
        lab.fates = Some(Box::new(move || draw_fate(&mut fate, badness)));
        let mut run =
            Self { lab, controller: Controller::default(), sessions: 0, deleted_at: -WHOLE_LEASE_MICROS, mistake };
        for index in 0..NAMES.len() {
            run.start(schedule, index);
        }
        run
    }

    fn checks(&self) -> &Checks {
        self.lab.checks.as_ref().unwrap()
    }

    fn pass_until(&mut self, until_micros: i64) {
        let rests = self.lab.run_until(until_micros, MOST_EVENTS_PER_STEP, |_| false);
        assert!(rests, "a process does not rest: {:#?}", self.lab.news);
    }

    fn start(&mut self, schedule: &Schedule, index: usize) {
        self.sessions += 1;
        let mut durations = Durations { stop_grace: Duration::from_secs(6), ..Durations::default() };
        if schedule.has_long_lease {
            durations.lease_duration_seconds = 2 * UNDECLARED_DURATION_SECONDS;
        }
        if schedule.has_long_deadline {
            durations.renew_deadline = Duration::from_secs(1) * durations.lease_duration_seconds * 99 / 100;
        }
        // A process that starts in the place of a dead one gets its lock. With this mistake all processes share one
        // place.
        let place = if self.mistake == Some(Mistake::ReclaimsWithoutLock) { 0 } else { index };
        let session = format!("s{}", self.sessions);
        let session = if schedule.has_places { format!("pod-{place}.web.4026.{session}") } else { session };
        let config = config(NAMES[index], &session, schedule.mode.clone(), Timing::new(durations).unwrap());
        let (offset, drift, wall) = schedule.clocks[index];
        let now = self.lab.now_micros;
        let mut replica = Replica::new(config, now).with_clock(offset, drift, wall, now);
        replica.process.label = format!("{}{index}", NAMES[index]);
        replica.work_stops = match schedule.stubborn_work[index] {
            0 => WorkStops::Never,
            n => WorkStops::After(Duration::from_secs(3) * u32::from(n - 1)),
        };
        if index < self.lab.replicas.len() {
            self.lab.replace(index, replica);
        } else {
            self.lab.add(replica);
        }
    }

    fn step(&mut self, schedule: &Schedule, step: &Step) {
        let lab = &mut self.lab;
        match *step {
            Step::Nothing => {}
            Step::Grant(who) => {
                if schedule.has_controller {
                    self.controller.grant(lab, NAMES[who]);
                }
            }
            Step::Prefer(who) => {
                if lab.lease().is_some() {
                    lab.edit_lease(|lease| lease.preferred_holder = who.map(|who| NAMES[who].to_owned()));
                }
            }
            // Premise of S1: nobody removes the session of a Lease that lasts longer than 15 s.
            Step::Edit(Edit::NoSession | Edit::GarbledSession) if schedule.has_long_lease => {}
            Step::Edit(ref edit) => self.edit(edit),
            // Premise of S1: nobody deletes a Lease before every process that may act on the deletion has observed the
            // Lease. If it lasts longer than 15 s, the process must also have observed the term.
            Step::Delete => {
                let session = lab.lease().map(|lease| &lease.session);
                let knows = |seen: Option<&LeaseRecord>| {
                    seen.is_some_and(|seen| !schedule.has_long_lease || Some(&seen.session) == session)
                };
                // The controller observes only between the steps. If it has not observed the Lease since an earlier
                // deletion, it would count the Lease as missing for the whole time.
                let is_seen = lab
                    .replicas
                    .iter()
                    .all(|replica| replica.process.crashed || knows(replica.elector.lease().map(Observed::record)))
                    && (!schedule.has_controller || self.controller.observed.is_some());
                if lab.lease().is_some() && is_seen {
                    lab.delete_lease();
                    self.deleted_at = lab.now_micros;
                }
            }
            Step::Ping(who) => lab.ping(NAMES[who], 0),
            Step::DeleteCandidate(who) => lab.delete_candidate(NAMES[who]),
            Step::Freeze(who, millis) => {
                lab.replicas[who].process.frozen_until = lab.now_micros + i64::from(millis) * 1_000;
            }
            Step::Crash(who) => {
                // A new process has observed nothing, so it must not start while another process may still lead under a
                // deleted Lease.
                let may_start = lab.lease().is_some() || lab.now_micros > self.deleted_at + WHOLE_LEASE_MICROS;
                lab.replicas[who].process.crashed = true;
                if may_start {
                    self.start(schedule, who);
                }
            }
            Step::Resign(who) => lab.observe(who, Observation::Resign),
            Step::Key(who, key) => lab.observe(who, Observation::Key(key)),
            Step::Stop(who) => lab.observe(who, Observation::Stop(Cause::Stopped)),
            Step::WorkEnded(who) => {
                if lab.replicas[who].leading.is_none() {
                    lab.observe(who, Observation::WorkStopped);
                }
            }
            Step::Watch(who, delay) => {
                lab.set_watch(who, delay.map(|millis| Duration::from_millis(u64::from(millis))));
            }
        }
        self.controller.look(&self.lab);
    }

    fn edit(&mut self, edit: &Edit) {
        let Some(mut lease) = self.lab.lease().cloned() else { return };
        match edit {
            Edit::Holder(holder) => lease.holder = holder.map(str::to_owned),
            Edit::Duration(seconds) => lease.duration_seconds = *seconds,
            Edit::Transitions(transitions) => lease.transitions = *transitions,
            Edit::Claim => {
                lease.holder = Some("bogus".to_owned());
                lease.duration_seconds = UNDECLARED_DURATION_SECONDS;
                lease.transitions = lease.transitions.saturating_add(1);
                lease.renew_time = Some(self.lab.wall().later_than(lease.renew_time));
            }
            Edit::LateRelease => (lease.holder, lease.duration_seconds) = (None, 1),
            Edit::NoSession => lease.session = SessionMark::Absent,
            Edit::GarbledSession => lease.session = SessionMark::Unreadable("garbled".to_owned()),
        }
        // Premise of S1: nobody forges the release form without a session, and nobody changes the electee of a grant.
        // The premise does not ask the code under test what that form is.
        let is_released = |lease: &LeaseRecord| {
            let by_client_go = lease.duration_seconds == 1 && lease.session == SessionMark::Absent;
            lease.holder.is_none() && (lease.is_open() || by_client_go)
        };
        if (is_released(&lease) && !self.lab.lease().is_some_and(is_released)) || lease.is_open() {
            return;
        }
        self.lab.edit_lease(|current| *current = lease);
    }
}

fn lottery(seed: u64) -> impl FnMut() -> u32 {
    let mut state = seed | 1;
    move || {
        // xorshift64*: random enough for a shuffle, and equal on all platforms.
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        u32::try_from(state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32).unwrap()
    }
}

fn draw_fate(draw: &mut impl FnMut() -> u32, badness: u32) -> Fate {
    let mut delay = || {
        let longest_millis = if draw() % 100 < badness { 12_000 } else { 30 };
        Duration::from_millis(u64::from(draw() % longest_millis))
    };
    let (there, back) = (delay(), delay());
    Fate { there, back, executed: draw() % 200 >= badness, answer_lost: draw() % 200 < badness }
}

fn play(schedule: &Schedule, mistake: Option<Mistake>) -> Run {
    let mut run = Run::new(schedule, mistake);
    for (gap_millis, step) in &schedule.steps {
        let until = run.lab.now_micros + i64::from(*gap_millis) * 1_000;
        run.pass_until(until);
        run.step(schedule, step);
    }
    let until = run.lab.now_micros + 20_000_000;
    run.pass_until(until);
    run
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_never_lead_at_one_instant_and_tokens_grow(schedule in schedules()) {
        let run = play(&schedule, None);
        prop_assert!(run.checks().violations.is_empty(), "{:?}\n{:#?}", run.checks().violations, run.lab.news);
        let token = |news: &News| if let News::Note(Note::Began { token, .. }) = news { Some(*token) } else { None };
        let tokens: Vec<u64> = run.lab.news.iter().filter_map(|entry| token(&entry.news)).collect();
        prop_assert!(tokens.is_sorted_by(|one, next| one < next), "{:?}\n{:#?}", tokens, run.lab.news);
    }

    #[test]
    fn no_two_processes_ever_call_one_wall_clock_instant_their_own(mut schedule in schedules()) {
        // Premise: a process that begins a term after a deletion of the Lease has observed the previous term.
        if schedule.steps.iter().any(|(_, step)| matches!(step, Step::Crash(_))) {
            schedule.steps.retain(|(_, step)| !matches!(step, Step::Delete));
        }
        let run = play(&schedule, None);
        prop_assert!(run.checks().overlaps().is_empty(), "{:?}\n{:#?}", run.checks().overlaps(), run.lab.news);
    }

    #[test]
    fn a_replica_leads_once_faults_have_stopped(schedule in schedules()) {
        let mut run = play(&schedule, None);
        run.lab.fates = None;
        for (who, name) in NAMES.into_iter().enumerate() {
            let replica = &mut run.lab.replicas[who];
            replica.process.frozen_until = 0;
            replica.work_stops = WorkStops::After(Duration::ZERO);
            run.step(&schedule, &Step::Watch(who, Some(0)));
            run.lab.candidate_changed(name);
            if run.lab.replicas[who].leading.is_none() {
                run.lab.observe(who, Observation::WorkStopped);
            }
        }
        run.step(&schedule, &Step::Prefer(None));
        // A new process, which was never asked to stop.
        run.step(&schedule, &Step::Crash(1));
        if run.lab.replicas[1].process.crashed {
            return Ok(());
        }
        run.lab.replicas[1].work_stops = WorkStops::After(Duration::ZERO);
        for _ in 0..110 {
            let until = run.lab.now_micros + 1_000_000;
            run.pass_until(until);
            if schedule.mode != ElectorMode::Direct && schedule.has_controller {
                run.controller.grant(&mut run.lab, NAMES[1]);
            }
        }
        let now = run.lab.now_micros;
        let leads = run.lab.replicas.iter().any(|replica| replica.reads_leading(now));
        prop_assert!(leads, "{:#?}", run.lab.news);
        prop_assert!(run.checks().violations.is_empty(), "{:?}", run.checks().violations);
    }

    #[test]
    fn no_observation_panics_or_keeps_an_elector_from_resting(
        mode in prop_oneof![Just(ElectorMode::Direct), Just(coordinated())],
        start in any::<i64>(),
        durations in durations(),
        observations in proptest::collection::vec((0..20_000_000_i64, any::<i64>(), any::<u32>(), observations()), 1..60),
    ) {
        let mut moment = start;
        let mut elector = Elector::new(config("a", "s", mode, Timing::new(durations).unwrap()), at(moment, 0));
        for (gap, wall, draw, observation) in observations {
            moment = moment.saturating_add(gap);
            let now = at(moment, wall);
            elector.observe(now, observation);
            let decision = elector.decide(now, Draw(draw));
            prop_assert!(decision.actions.len() <= 6, "{:?}", decision.actions);
            prop_assert!(decision.deadline.is_none_or(|deadline| deadline > now.moment));
            let again = elector.decide(now, Draw(draw));
            prop_assert_eq!(again.actions, []);
            prop_assert_eq!(again.notes, []);
            prop_assert_eq!(again.leading, decision.leading);
        }
    }
}

/// A negative control: the same schedules must detect electors that make a mistake.
#[test]
fn counting_validity_from_the_answer_lets_two_lead() {
    assert_found_out(Mistake::CountsFromAnswer);
}

#[test]
fn reclaiming_without_the_lock_lets_two_lead() {
    assert_found_out(Mistake::ReclaimsWithoutLock);
}

fn assert_found_out(mistake: Mistake) {
    let mut runner = TestRunner::deterministic();
    let found = (0..500).any(|_| {
        let schedule = schedules().new_tree(&mut runner).unwrap().current();
        !play(&schedule, Some(mistake)).checks().violations.is_empty()
    });
    assert!(found, "the schedules are too tame to prove anything");
}

fn at(moment: i64, wall: i64) -> Now {
    Now { moment: Moment::from_micros(moment), wall: WireTime::from_micros(wall) }
}
