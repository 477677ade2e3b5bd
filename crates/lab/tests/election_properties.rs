//! Properties of every election, whatever its objects contain and whatever happens.

#[path = "election_properties/acts.rs"]
mod acts;
#[path = "election_world/world.rs"]
mod election_world;
#[path = "election_properties/incidents.rs"]
mod incidents;
#[path = "election_properties/records.rs"]
mod records;

use std::time::Duration;

use election_world::World;
use hustings_core::election::{Config, Decision, Election, EvidenceConfig, Observation, Source};
use hustings_core::model::{Moment, Now, WireTime};
use proptest::prelude::*;
use proptest::sample::select;

use incidents::{agree, happen, incident};
use records::{candidate, lease, observation};

fn with_evidence(pods: bool) -> Config {
    Config { evidence: EvidenceConfig { pods, nodes: pods }, ..Config::default() }
}

fn at(moment: i64) -> Now {
    Now { moment: Moment::from_micros(moment), wall: WireTime::from_micros(moment) }
}

/// Whether the conventions of the Kubernetes API allow `text` as the `reason` of a condition.
fn is_reason(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase()) && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// The candidate that leads.
fn leader(world: &World) -> Option<String> {
    world.standing().map(|bare| &bare.process.name).find(|name| world.is_leading(name)).cloned()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

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
                let status = verdict.status();
                prop_assert!(status.message.len() <= 1024);
                prop_assert!(status.condition_messages().iter().all(|message| !message.is_empty()));
                let reasons = [status.admissible, status.responsive, status.leading].map(|condition| condition.reason);
                prop_assert!(reasons.iter().all(|reason| is_reason(reason)), "{reasons:?}");
            }
        }
    }

    #[test]
    fn whatever_has_happened_the_best_live_candidate_leads_in_the_end_and_then_nothing_is_written(
        incidents in proptest::collection::vec((incident(), 0..12_000_u64), 1..14),
        lag_millis in select(vec![0, 0, 20, 700, 3_000]),
        pods in any::<bool>(),
    ) {
        let lag = Duration::from_millis(lag_millis);
        let mut world = World::in_namespace(with_evidence(pods), "default", lag);
        world.stand_by();
        let count = incidents.len();
        for (incident, pause) in incidents {
            happen(&mut world, incident);
            world.run(Duration::from_millis(pause));
        }
        world.lab.server.faults.failing = 0;
        agree(&mut world);
        world.run(Duration::from_secs(50));
        let leads = leader(&world).is_some();
        let anybody = world.standing().any(|bare| !bare.process.crashed);
        prop_assert_eq!(leads, anybody, "within 50 s a live candidate leads\n{}", world.take_log());
        world.run(Duration::from_secs(20));
        let better = world.better_than_holder();
        let verdicts = world.last().into_iter().flat_map(|decision| &decision.candidates);
        let excused = |name: &String| verdicts.clone().any(|verdict| *verdict.candidate.name == **name && verdict.damping_count > 0);
        prop_assert!(better.iter().all(excused), "within 70 s {better:?} leads\n{}", world.take_log());
        world.run(Duration::from_secs(630));
        let better = world.better_than_holder();
        prop_assert!(better.is_empty(), "within 10 min {better:?} leads\n{}", world.take_log());
        let holder = leader(&world);
        prop_assert_eq!(holder.is_some(), anybody, "\n{}", world.take_log());
        let (pings, bound) = (world.pings, 4 * (count + 1));
        prop_assert!(pings <= bound, "{pings} pings, {bound} at the most\n{}", world.take_log());
        world.check_rest(|world| world.standing().count(), holder.as_deref())?;
    }
}
