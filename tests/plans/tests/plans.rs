//! A few plans of three scenarios, others in each run. `cargo run --release -p hustings-plans --example plans` runs all.

use std::sync::Arc;

use futures::{StreamExt, stream};
use hustings_controlplane::ControlPlane;
use hustings_plans::campaign::{Ground, Sheet};
use hustings_plans::point::{Fault, Plan};
use hustings_plans::scenario::Scenario;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// How many plans of each.
const PLANS: usize = 8;

/// How many runs at a time.
const AT_A_TIME: usize = 24;

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_of_plans_ends_as_if_nothing_had_gone_wrong() {
    let plane = Arc::new(ControlPlane::builder().start().await.unwrap());
    let ground = Ground::new(plane, Vec::new()).await.unwrap();
    let scenarios = [Scenario::Direct, Scenario::Preference, Scenario::Joins];
    let sheets = futures::future::try_join_all(scenarios.map(|scenario| ground.undisturbed(scenario))).await.unwrap();
    let sampled: Vec<_> =
        sheets.iter().flat_map(|sheet| sample(sheet).into_iter().map(move |plan| (sheet, plan))).collect();
    let count = sampled.len();
    let failed: Vec<String> = stream::iter(sampled)
        .map(|(sheet, plan)| ground.run(sheet, plan))
        .buffer_unordered(AT_A_TIME)
        .filter_map(|report| async move {
            let told = [report.failures.clone(), report.story.clone(), vec![report.command()]].concat();
            (!report.failures.is_empty()).then(|| told.join("\n"))
        })
        .collect()
        .await;
    assert!(failed.is_empty(), "{} of {count} plans failed:\n{}", failed.len(), failed.join("\n\n"));
}

/// After a crash a candidate ranks last for half a minute, which is for those who have more time.
fn sample(sheet: &Sheet) -> Vec<Plan> {
    let crashes = [Fault::CrashBefore, Fault::CrashAfter];
    let mut plans = sheet.plans();
    plans.retain(|plan| sheet.scenario != Scenario::Joins || !crashes.contains(&plan.fault));
    plans.sample(&mut rand::make_rng::<StdRng>(), PLANS).cloned().collect()
}
