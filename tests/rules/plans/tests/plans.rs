//! A few plans of three scenarios, different ones in each run. `cargo run --release -p hustings-plans --example plans`
//! runs all.

use std::sync::Arc;

use futures::future::join_all;
use hustings_controlplane::ControlPlane;
use hustings_plans::campaign::{Ground, Sheet};
use hustings_plans::point::{Fault, Plan};
use hustings_plans::scenario::Scenario;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// How many plans of each.
const PLANS: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_of_plans_ends_as_the_undisturbed_run_does() {
    let plane = Arc::new(ControlPlane::builder().start().await.unwrap());
    let ground = Ground::new(plane, Vec::new()).await.unwrap();
    let scenarios = [Scenario::Direct, Scenario::Preference, Scenario::Joins];
    let concluded = join_all(scenarios.map(async |scenario| {
        let sheet = ground.undisturbed(scenario).await.unwrap();
        join_all(sample(&sheet).into_iter().map(|plan| ground.conclude(&sheet, plan))).await
    }));
    let reports = concluded.await.into_iter().flatten().map(|(report, _)| report);
    let failures: Vec<String> = reports
        .filter(|report| !report.failures.is_empty())
        .map(|report| [report.failures.clone(), report.story.clone(), vec![report.command()]].concat().join("\n"))
        .collect();
    assert!(failures.is_empty(), "{} plans failed:\n{}", failures.len(), failures.join("\n\n"));
}

/// Slow effects are left out. After a crash a candidate ranks last for half a minute. A Lease that was created and not
/// claimed counts as held for 15 s.
fn sample(sheet: &Sheet) -> Vec<Plan> {
    let crashes = [Fault::CrashBefore, Fault::CrashAfter];
    let mut plans = sheet.plans();
    plans.retain(|plan| {
        let lasts = sheet.scenario == Scenario::Joins || plan.point.role == "a";
        !(lasts && crashes.contains(&plan.fault))
    });
    plans.sample(&mut rand::make_rng::<StdRng>(), PLANS).cloned().collect()
}
