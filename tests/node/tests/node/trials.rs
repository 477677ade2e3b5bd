//! The list of all tests.

use libtest_mimic::Trial;
use tokio::runtime::Runtime;

use super::{assisted, campaign, disturbances, ends, figures, kinds, scales, services, tokens};

/// Every test here, the longest first.
pub(crate) fn all() -> Vec<Trial> {
    macro_rules! trials {
        ($($module:ident::$test:ident,)*) => {
            vec![$(Trial::test(concat!(stringify!($module), "::", stringify!($test)), || {
                Runtime::new()?.block_on($module::$test());
                Ok(())
            })),*]
        };
    }
    let mut all = trials![
        disturbances::silent_node_costs_no_holder_its_lease_until_it_is_out_of_service,
        disturbances::drain_moves_the_lease_and_respects_the_budget,
        disturbances::drain_ends_and_each_leader_hands_over,
        disturbances::restarted_kubelet_and_containerd_cost_no_holder_its_lease,
        assisted::process_on_a_cut_off_node_keeps_its_lease_while_a_new_pod_of_its_name_ends,
        services::service_leads_to_the_leader_after_a_hand_over_a_crash_and_a_restart_of_the_controllers,
        scales::controllers_scaled_to_zero_cost_no_holder_its_lease_and_elect_again_when_scaled_up,
        scales::workload_scaled_to_zero_releases_its_lease_and_leads_at_once_when_scaled_up,
        scales::workload_killed_by_scaling_to_zero_leaves_no_candidates_and_leads_again,
        assisted::dead_leader_beside_another_container_keeps_its_lease_until_its_container_is_named,
        assisted::static_kube_controller_manager_that_starts_again_does_not_wait_for_its_own_lease,
        assisted::static_kube_scheduler_that_starts_again_does_not_wait_for_its_own_lease,
        ends::killed_leader_is_proven_dead_long_before_its_lease_ends,
        ends::force_deleted_leader_is_followed,
        ends::oldest_version_leads_throughout_a_rolling_update,
        ends::evicted_leader_hands_over,
        ends::leader_that_fails_its_liveness_probe_hands_over,
        ends::leader_that_runs_out_of_memory_is_followed,
        kinds::wrapped_command_survives_a_killed_wrapper,
        kinds::program_beside_a_sidecar_survives_a_killed_sidecar,
        kinds::program_with_the_library_survives_a_kill,
        kinds::program_in_python_survives_a_kill,
        kinds::stateful_set_survives_a_kill_and_a_restart,
        kinds::static_pod_takes_its_lease_back_after_a_kill,
        kinds::pod_stands_under_its_own_identity,
    ];
    all.extend(assisted::trials());
    let long = trials![
        campaign::kills,
        campaign::assisted_kills,
        campaign::latencies,
        figures::client_go_with_assistance_and_alone,
        services::latencies,
        tokens::rotated_tokens_cost_no_holder_its_lease,
    ];
    all.extend(long.into_iter().map(|trial| trial.with_ignored_flag(true)));
    all
}
