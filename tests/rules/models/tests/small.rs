//! Explores the small models completely. The planted mistakes must be found, otherwise the explorations would prove
//! nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::num::NonZeroUsize;
use std::time::Duration;

use hustings_models::{Limits, case, explore};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn check(name: &str) {
    let case = case(name).unwrap();
    let limits = Limits { threads: NonZeroUsize::MIN, steps: 8_000_000, time: Duration::from_hours(1) };
    let report = explore(case.subject, limits, case.breaks, &mut |_, _| {});
    println!("{name}: {} states, {} steps, depth {}", report.states, report.steps, report.depth);
    if let Some(rule) = case.breaks {
        assert!(report.broken.contains_key(rule), "{name} was not found: {report:?}");
    } else {
        assert!(report.broken.is_empty(), "{:#?}", report.broken);
        assert!(report.is_complete, "a limit was reached");
        assert!(report.impossible.is_empty(), "{:?} never happens", report.impossible);
    }
}

#[test]
fn two_never_lead_at_one_instant_however_late_everything_is() {
    check("direct");
}

#[test]
fn a_replica_leads_again_within_six_seconds_after_a_crash_with_a_lease_of_three() {
    check("live");
}

#[test]
fn a_controller_and_two_candidates_elect_in_every_order_of_events() {
    check("elected");
}

#[test]
fn a_replica_leads_within_fifty_seconds_whenever_an_elector_crashes() {
    check("elected-crash");
}

#[test]
fn a_replica_leads_within_fifty_seconds_whenever_an_elector_dies_for_good() {
    check("elected-death");
}

#[test]
fn no_rule_breaks_whenever_the_kubelet_reports_the_end_of_an_elector_that_starts_again() {
    check("evidence-crash");
}

#[test]
fn no_rule_breaks_whenever_the_kubelet_reports_the_end_of_an_elector_that_dies_for_good() {
    check("evidence-death");
}

#[test]
fn a_kubelet_that_reports_the_end_of_a_frozen_elector_lets_two_lead() {
    check("lying-kubelet");
}

#[test]
fn an_elector_that_stops_leaves_the_lease_to_the_other() {
    check("elected-stop");
}

#[test]
fn a_controller_that_starts_anew_deposes_nobody() {
    check("controller-restart");
}

#[test]
fn a_frozen_controller_costs_no_holder_its_lease() {
    check("controller-sleep");
}

#[test]
fn whatever_a_person_edits_two_never_lead() {
    check("elected-edit");
}

#[test]
fn no_candidate_of_an_equal_version_deposes_the_holder_whenever_one_crashes() {
    check("equals");
}

#[test]
fn one_elector_leads_within_fifty_seconds_whichever_request_is_lost() {
    check("loss-of-one");
}

#[test]
fn two_controllers_that_both_elect_break_no_rule() {
    check("take-over");
}

#[test]
fn a_controller_that_grants_a_deleted_lease_at_once_lets_two_lead() {
    check("grants-deleted");
}

#[test]
fn a_controller_that_counts_from_the_renew_time_lets_two_lead() {
    check("counts-from-renew-time");
}

#[test]
fn a_controller_that_writes_without_a_condition_deposes_a_holder() {
    check("grants-unconditionally");
}

#[test]
fn a_controller_that_takes_its_ping_for_an_answer_grants_to_one_that_gave_none() {
    check("grants-unasked");
}

#[test]
fn a_controller_that_waits_for_a_lost_answer_leaves_the_lease_to_nobody() {
    check("waits-for-answers");
}

#[test]
fn a_controller_that_ignores_its_deadlines_leaves_the_lease_of_the_dead_to_nobody() {
    check("ignores-deadlines");
}

#[test]
fn an_elector_that_takes_the_count_of_terms_for_its_token_repeats_one_after_a_deletion() {
    check("counts-terms-for-tokens");
}

#[test]
fn a_holder_that_renews_while_it_is_called_so_loses_the_lease_with_the_controller() {
    check("renews-while-called-holder");
}

#[test]
fn client_go_with_15_10_2_and_an_answer_that_takes_4_seconds_lets_two_lead() {
    check("client-go-4s");
}

#[test]
fn validity_that_counts_from_the_answer_lets_two_lead() {
    check("counts-from-answer");
}

#[test]
fn writes_without_a_condition_let_two_lead() {
    check("unconditional-writes");
}

#[test]
fn a_landing_that_is_recognised_by_name_lets_two_lead() {
    check("recognised-by-name");
}

#[test]
fn a_deleted_lease_that_is_free_at_once_lets_two_lead() {
    check("deleted-is-free");
}

#[test]
fn a_shrunk_duration_that_is_obeyed_lets_two_lead() {
    check("shrunk-duration");
}

#[test]
fn clocks_that_differ_by_more_than_is_allowed_let_two_lead() {
    check("fast-clock");
}

#[test]
fn a_reclaim_without_the_lock_lets_two_lead() {
    check("reclaim-without-lock");
}
