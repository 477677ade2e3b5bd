//! What holds of every election, whatever the objects say and whatever happens.

#[path = "election_properties/acts.rs"]
mod acts;
#[path = "election_world/world.rs"]
mod election_world;

use std::cmp::Ordering;
use std::time::Duration;

use election_world::{Process, World};
use hustings_core::election::{Config, Decision, Election, EvidenceConfig, LeaseVerdict, Observation, Source, Target};
use hustings_core::model::{
    CandidateKey, CandidateKind, CandidateRecord, CandidateState, ContainerEnd, LeaseActs, LeaseRecord, Moment,
    NativeFields, NodeRecord, Now, Pod, PodRecord, RecordedStatus, SessionMark, WireTime,
};
use hustings_core::ranking::Rank;
use proptest::prelude::*;
use proptest::sample::select;

fn version() -> impl Strategy<Value = String> {
    select(vec!["1.30", "v1.31", "1.31.0", "1.32.0-rc.1", "1.32", "0", "", "one", "99999999999.0.0"])
        .prop_map(str::to_owned)
}

fn wire() -> impl Strategy<Value = Option<WireTime>> {
    select(vec![None, Some(i64::MIN), Some(0), Some(1_767_225_600_000_000), Some(i64::MAX)])
        .prop_map(|micros| micros.map(WireTime::from_micros))
}

fn status() -> impl Strategy<Value = RecordedStatus> {
    (proptest::option::of(select(CandidateState::ALL.to_vec())), select(vec![0, 1, 40, u32::MAX]), wire(), wire())
        .prop_map(|(state, damping_count, damped_until, unresponsive_since)| RecordedStatus {
            state,
            damping_count,
            damped_until,
            unresponsive_since,
            ..RecordedStatus::default()
        })
}

prop_compose! {
    fn candidate(names: Vec<&'static str>)(
        name in select(names),
        uid in select(vec!["u", "v"]),
        resource_version in select(vec![0, 1, 5, 9, u64::MAX]),
        (created, ping_time, renew_time) in (wire(), wire(), wire()),
        owned in any::<bool>(),
        (binary_version, emulation_version) in (version(), proptest::option::of(version())),
        strategy in select(vec![None, None, Some("example.com/Mine"), Some("x")]),
        priority in select(vec![0, 0, 1, i32::MIN, i32::MAX]),
        lease_duration_seconds in select(vec![None, Some(0), Some(30), Some(u32::MAX)]),
        session in select(vec![None, Some("s"), Some("t")]),
        status in status(),
        acts in acts::of_candidate(),
        kind in select(vec![CandidateKind::Hustings, CandidateKind::Native]),
    ) -> CandidateRecord {
        CandidateRecord {
            kind,
            name: name.to_owned(),
            uid: uid.to_owned(),
            resource_version,
            creation_time: created.unwrap_or_default(),
            owned,
            pod: None,
            lease_name: "l".to_owned(),
            binary_version,
            emulation_version,
            strategy: strategy.map(str::to_owned),
            priority,
            ping_time,
            renew_time,
            lease_duration_seconds,
            session: session.map(str::to_owned),
            acts,
            status,
        }
    }
}

fn preferred() -> impl Strategy<Value = Option<&'static str>> {
    select(vec![None, None, Some("a"), Some("stranger")])
}

prop_compose! {
    fn lease()(
        uid in select(vec!["u", "v"]),
        resource_version in select(vec![0, 1, 5, 9, u64::MAX]),
        holder in select(vec![None, Some("a"), Some("b"), Some("stranger")]),
        (preferred, native_preferred) in (preferred(), preferred()),
        duration_seconds in select(vec![0, 1, 5, 15, u32::MAX]),
        (acquire_time, renew_time) in (wire(), wire()),
        transitions in select(vec![0, 1, u32::MAX]),
        session in select(vec![None, Some("open"), Some("s/1/15"), Some("s/2/15"), Some("s/1/4294967295"), Some("?")]),
        hold in select(vec![None, None, Some("disagreement"), Some("third-party strategy x/Y"), Some("maintenance")]),
        acts in acts::of_lease(),
        (leaving, enrolled) in any::<(bool, bool)>(),
    ) -> LeaseRecord {
        LeaseRecord {
            uid: uid.to_owned(),
            resource_version,
            holder: holder.map(str::to_owned),
            duration_seconds,
            acquire_time,
            renew_time,
            transitions,
            session: SessionMark::read(session),
            token: None,
            preferred_holder: preferred.map(str::to_owned),
            strategy: None,
            hold: hold.map(str::to_owned),
            acts,
            key: None,
            leaving,
            enrolled,
            native: NativeFields { strategy: None, preferred_holder: native_preferred.map(str::to_owned) },
        }
    }
}

fn source() -> impl Strategy<Value = Source> {
    (0..4, any::<i64>()).prop_map(|(kind, sent)| {
        let sent = Moment::from_micros(sent);
        match kind {
            0 => Source::Watch,
            1 => Source::Read { sent },
            2 => Source::StatusWritten { sent },
            _ => Source::Written { sent },
        }
    })
}

fn key(name: &'static str) -> impl Strategy<Value = CandidateKey> {
    select(vec![CandidateKey::hustings(name), CandidateKey::native(name)])
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        Just(Target::Lease),
        Just(Target::Evidence),
        key("b").prop_map(Target::Candidate),
        key("b").prop_map(Target::Status)
    ]
}

fn with_evidence(pods: bool) -> Config {
    Config { evidence: EvidenceConfig { pods, nodes: pods, ..EvidenceConfig::default() }, ..Config::default() }
}

fn pod() -> impl Strategy<Value = PodRecord> {
    let uid = || select(vec!["a", "b", ""]).prop_map(str::to_owned);
    let end = (uid(), proptest::option::of(any::<i64>().prop_map(WireTime::from_micros)))
        .prop_map(|(container, finished_at)| ContainerEnd { container, finished_at, reason: String::new() });
    (uid(), proptest::option::of(uid()), any::<bool>(), proptest::collection::vec(end, 0..3)).prop_map(
        |(uid, node, shares_processes, ends)| PodRecord { uid, config_hash: None, node, shares_processes, ends },
    )
}

fn node() -> impl Strategy<Value = NodeRecord> {
    (select(vec!["a", "b"]), any::<bool>(), any::<bool>()).prop_map(|(name, is_out_of_service, is_ready)| NodeRecord {
        name: name.to_owned(),
        is_out_of_service,
        is_ready,
    })
}

fn observation() -> impl Strategy<Value = Observation> {
    let names = vec!["a", "b", "c"];
    prop_oneof![
        3 => (lease(), source()).prop_map(|(record, source)| Observation::Lease { record, source }),
        1 => source().prop_map(|source| Observation::LeaseMissing { source }),
        4 => (candidate(names), source()).prop_map(|(record, source)| Observation::Candidate { record, source }),
        1 => (key("a"), source()).prop_map(|(candidate, source)| Observation::CandidateMissing { candidate, source }),
        1 => proptest::option::of(pod()).prop_map(|record| Observation::Pod { record }),
        1 => proptest::option::of(node()).prop_map(|record| Observation::Node { record }),
        1 => target().prop_map(|target| Observation::Failed { target }),
    ]
}

fn at(moment: i64) -> Now {
    Now { moment: Moment::from_micros(moment), wall: WireTime::from_micros(moment) }
}

/// One thing that may happen to a component.
#[derive(Clone, Debug)]
enum Incident {
    Join { name: usize, emulation: u64, process: Process },
    Kill(usize),
    Revive(usize),
    Leave,
    Release,
    DeleteCandidate(usize),
    DeleteLease,
    CreateLeaseAgain,
    ClaimByClientGo,
    Unlabel,
    EditDuration(u32),
    EditHolder(usize),
    EditPriority(usize, i32),
    Dissent(usize),
    Pause,
    Act(acts::Incident),
    Restart,
    TakeOver,
    Fail(usize),
}

fn incident() -> impl Strategy<Value = Incident> {
    let process = (any::<bool>(), select(vec![15, 15, 30]), select(vec![-3600, 0, 0, 3600])).prop_map(
        |(live, lease_seconds, clock_seconds)| {
            let mut process = Process::default();
            (process.live, process.lease_seconds, process.clock_seconds) = (live, lease_seconds, clock_seconds);
            process
        },
    );
    prop_oneof![
        6 => (0..4_usize, 28..33_u64, process).prop_map(|(name, emulation, process)| Incident::Join { name, emulation, process }),
        2 => (0..4_usize).prop_map(Incident::Kill),
        3 => (0..4_usize).prop_map(Incident::Revive),
        2 => Just(Incident::Leave),
        1 => Just(Incident::Release),
        1 => (0..4_usize).prop_map(Incident::DeleteCandidate),
        1 => Just(Incident::DeleteLease),
        1 => Just(Incident::CreateLeaseAgain),
        1 => Just(Incident::ClaimByClientGo),
        1 => Just(Incident::Unlabel),
        1 => select(vec![1, 7, 40]).prop_map(Incident::EditDuration),
        1 => (0..4_usize).prop_map(Incident::EditHolder),
        1 => (0..4_usize, 0..3).prop_map(|(name, priority)| Incident::EditPriority(name, priority)),
        1 => (0..4_usize).prop_map(Incident::Dissent),
        1 => Just(Incident::Pause),
        4 => acts::incident().prop_map(Incident::Act),
        1 => Just(Incident::Restart),
        1 => Just(Incident::TakeOver),
        1 => (1..5_usize).prop_map(Incident::Fail),
    ]
}

fn name(index: usize) -> String {
    format!("c-{index}")
}

fn happen(world: &mut World, incident: Incident) {
    match incident {
        Incident::Join { name: index, emulation, process } => {
            let record = CandidateRecord {
                name: name(index),
                lease_name: "l".to_owned(),
                owned: true,
                pod: Some(Pod { name: name(index), uid: name(index) }),
                binary_version: "1.32".to_owned(),
                emulation_version: Some(format!("1.{emulation}")),
                lease_duration_seconds: Some(process.lease_seconds),
                ..CandidateRecord::default()
            };
            if world.candidate(&record.name).is_none() {
                world.put_candidate(record, process);
            }
        }
        Incident::Kill(index) => {
            if let Some(process) = world.processes.get_mut(&name(index)) {
                process.live = false;
                world.report_end(&name(index));
            }
        }
        Incident::Revive(index) => world.revive(&name(index)),
        Incident::Leave | Incident::Release => {
            let holder = world.lease().and_then(|lease| lease.holder.clone());
            if let Some(holder) = holder.filter(|holder| world.is_leading(holder)) {
                if matches!(incident, Incident::Leave) {
                    world.leave(&holder);
                } else {
                    world.release(&holder);
                }
            }
        }
        // Nobody deletes a held Lease whose term is in no candidate's status: that is a premise.
        Incident::DeleteCandidate(index) if world.lease().is_some() => world.delete_candidate(&name(index)),
        Incident::DeleteLease | Incident::CreateLeaseAgain if world.status_tells_of_holder() => {
            world.delete_lease();
            if matches!(incident, Incident::CreateLeaseAgain) {
                world.put_lease(LeaseRecord::as_created());
            }
        }
        Incident::DeleteCandidate(_) | Incident::DeleteLease | Incident::CreateLeaseAgain => {}
        Incident::EditPriority(index, priority) => {
            world.edit_candidate(&name(index), |record| record.priority = priority);
        }
        Incident::Dissent(index) => {
            world.edit_candidate(&name(index), |record| record.strategy = Some("example.com/Mine".to_owned()));
        }
        Incident::Unlabel
        | Incident::EditDuration(_)
        | Incident::EditHolder(_)
        | Incident::ClaimByClientGo
        | Incident::Pause => {
            if let Some(mut lease) = world.lease().cloned().filter(|lease| lease.holder.is_some() && !lease.is_open()) {
                match incident {
                    Incident::EditDuration(seconds) => lease.duration_seconds = seconds,
                    Incident::EditHolder(index) => lease.holder = Some(name(index)),
                    // It relies on the duration, which a person may have shortened, and keeps the annotations.
                    Incident::ClaimByClientGo => {
                        lease.holder = Some("client-go".to_owned());
                        lease.duration_seconds = 15;
                        lease.transitions = lease.transitions.saturating_add(1);
                    }
                    Incident::Pause => lease.hold = Some("maintenance".to_owned()),
                    _ => lease.enrolled = false,
                }
                world.put_lease(lease);
            }
        }
        Incident::Act(act) => acts::happen(world, act),
        Incident::Restart => world.restart(),
        Incident::TakeOver => world.take_over(),
        Incident::Fail(count) => world.failing = count,
    }
}

/// No candidate asks for another strategy any more, no act of an administrator stands, and elections continue.
fn agree(world: &mut World) {
    for index in 0..4 {
        world.edit_candidate(&name(index), |record| {
            record.strategy = None;
            record.acts.exclude = None;
        });
    }
    if let Some(lease) =
        world.lease().cloned().filter(|lease| lease.hold.is_some() || lease.acts != LeaseActs::default())
    {
        world.put_lease(LeaseRecord { hold: None, acts: LeaseActs::default(), ..lease });
    }
}

fn writes(world: &World) -> (usize, usize, usize) {
    (world.pings, world.lease_writes, world.status_patches)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_candidates_is_strict_and_total(
        records in proptest::collection::vec(candidate(vec!["a", "b", "c"]), 3)
    ) {
        let ranks: Vec<Rank> = records
            .iter()
            .filter_map(|record| record.standing().ok().map(|standing| Rank::new(&standing, record)))
            .collect();
        for a in &ranks {
            for b in &ranks {
                prop_assert_eq!(a.order(b), b.order(a).reverse());
                prop_assert_eq!(a.order(b) == Ordering::Equal, a == b);
                prop_assert_eq!(a.criterion(b).is_none(), a == b);
                prop_assert!(!a.is_better_than_holder(b) || a.order(b) == Ordering::Less);
                for c in &ranks {
                    prop_assert!(!(a.order(b) == Ordering::Less && b.order(c) == Ordering::Less) || a.order(c) == Ordering::Less);
                }
            }
        }
    }

    #[test]
    fn the_decision_does_not_depend_on_the_order_of_the_observations_of_one_instant(
        (sorted, shuffled) in (
            candidate(vec!["a"]), candidate(vec!["b"]), candidate(vec!["c"]), proptest::option::of(lease()),
        ).prop_flat_map(|(a, b, c, lease)| {
            let mut all: Vec<Observation> =
                [a, b, c].map(|record| Observation::Candidate { record, source: Source::Watch }).into();
            all.push(match lease {
                Some(record) => Observation::Lease { record, source: Source::Watch },
                None => Observation::LeaseMissing { source: Source::Read { sent: Moment::from_micros(7) } },
            });
            (Just(all.clone()), Just(all).prop_shuffle())
        })
    ) {
        let decide = |observations: Vec<Observation>| -> (Vec<Decision>, Election) {
            let mut election = Election::new(Config::default(), "default", "l");
            for observation in observations {
                election.observe(at(7), observation);
            }
            let decisions = [7, 2_000_000, 10_000_000, 16_000_000].map(|moment| election.decide(at(moment)));
            (decisions.into(), election)
        };
        prop_assert_eq!(decide(sorted), decide(shuffled));
    }

    #[test]
    fn no_input_panics_and_no_deadline_lies_beyond_the_requeue_interval(
        steps in proptest::collection::vec((any::<i64>(), any::<bool>(), observation()), 1..40)
    ) {
        let mut election = Election::new(with_evidence(true), "default", "l");
        let mut now = 0_i64;
        for (moment, jumps, observation) in steps {
            now = if jumps { moment } else { now.saturating_add(moment.rem_euclid(20_000_000)) };
            election.observe(at(now), observation);
            let decision = election.decide(at(now));
            prop_assert!(decision.deadline <= at(now).moment.after(Config::default().requeue));
            prop_assert!(decision.deadline > at(now).moment || now == i64::MAX);
            for verdict in &decision.candidates {
                prop_assert!(verdict.status().message.len() <= 1024);
            }
        }
    }

    #[test]
    fn whatever_has_happened_the_best_live_candidate_leads_in_the_end_and_then_nothing_is_written(
        incidents in proptest::collection::vec((incident(), 0..12_000_u64), 1..14),
        lag_millis in select(vec![0, 0, 20, 700, 3_000]),
        pods in any::<bool>(),
    ) {
        let mut world = World::new(with_evidence(pods));
        world.lag = Duration::from_millis(lag_millis);
        world.stand_by();
        let count = incidents.len();
        for (incident, pause) in incidents {
            happen(&mut world, incident);
            world.run(Duration::from_millis(pause));
        }
        world.failing = 0;
        agree(&mut world);
        world.run(Duration::from_secs(50));
        let leads = world.processes.keys().any(|name| world.is_leading(name));
        let anybody = world.processes.values().any(|process| process.live);
        prop_assert_eq!(leads, anybody, "within 50 s a live candidate leads\n{}", world.take_log());
        world.run(Duration::from_secs(20));
        let better = world.better_than_holder();
        let verdicts = world.last.iter().flat_map(|decision| &decision.candidates);
        let excused = |name: &String| verdicts.clone().any(|verdict| *verdict.candidate.name == **name && verdict.damping_count > 0);
        prop_assert!(better.iter().all(excused), "within 70 s {better:?} leads\n{}", world.take_log());
        world.run(Duration::from_secs(630));
        let better = world.better_than_holder();
        prop_assert!(better.is_empty(), "within 10 min {better:?} leads\n{}", world.take_log());
        let holder = world.processes.keys().find(|name| world.is_leading(name)).cloned();
        prop_assert_eq!(holder.is_some(), anybody, "\n{}", world.take_log());
        let (pings, bound) = (world.pings, 4 * (count + 1));
        prop_assert!(pings <= bound, "{pings} pings, {bound} at the most\n{}", world.take_log());
        let before = writes(&world);
        world.run(Duration::from_mins(1));
        prop_assert_eq!(writes(&world), before, "\n{}", world.take_log());
        let pings = world.pings;
        world.restart();
        world.run(Duration::from_mins(1));
        prop_assert!(world.pings - pings <= world.processes.len(), "\n{}", world.take_log());
        if let Some(holder) = &holder {
            prop_assert!(world.is_leading(holder), "a restart deposes nobody\n{}", world.take_log());
        }
        let verdict = world.last.as_ref().map(|decision| decision.lease.clone());
        prop_assert_eq!(matches!(verdict, Some(LeaseVerdict::Held { taken_up: true, .. })), holder.is_some());
    }
}
