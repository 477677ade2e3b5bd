//! Compares the model of the API server with a real kube-apiserver, answer by answer.
//!
//! `SEQUENCES=5000` sends more sequences. `SEED=7` sends a single one and prints the differences.

mod compare;
mod requests;

use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use hustings_client::api::crd;
use hustings_controlplane::{serve, shared};
use hustings_world::server::Server;

use crate::conformance::compare::Side;
use crate::conformance::requests::Plan;

/// How many sequences are compared by default.
const SEQUENCES: u64 = 200;

/// How many at a time.
const AT_A_TIME: usize = 8;

/// How long the server's cache may take to show a write, and how often the test asks again.
const HEARD_WITHIN: Duration = Duration::from_secs(30);
const ASKED_EVERY: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread")]
async fn the_model_answers_as_the_server_does() {
    let plane = shared().await.unwrap();
    let admin = plane.admin();
    serve(&admin, &crd()).await.unwrap();

    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEQUENCES").unwrap_or(SEQUENCES),
    };
    let plane = Arc::new(plane);
    let differences: Vec<String> = stream::iter(seeds)
        .map(|seed| {
            let (plane, admin) = (Arc::clone(&plane), admin.clone());
            async move {
                let namespace = plane.create_namespace("conformance").await.unwrap();
                let mut real = Side::new(admin, &namespace);
                let mut model = Side::new(Server::default().client(&namespace), &namespace);
                differences(seed, &mut real, &mut model).await.unwrap()
            }
        })
        .buffer_unordered(AT_A_TIME)
        .filter_map(|difference| async { difference })
        .collect()
        .await;
    let few: Vec<_> = differences.iter().take(5).cloned().collect();
    assert!(differences.is_empty(), "{} sequences differ:\n{}", differences.len(), few.join("\n\n"));
}

/// The first difference between the answers to one sequence.
async fn differences(seed: u64, real: &mut Side, model: &mut Side) -> anyhow::Result<Option<String>> {
    let plan = Plan::new(seed);
    for (index, step) in plan.steps.iter().enumerate() {
        let (mut expected, answered) = (real.take(step).await?, model.take(step).await?);
        let until = Instant::now() + HEARD_WITHIN;
        while expected != answered && step.may_be_old() && Instant::now() < until {
            tokio::time::sleep(ASKED_EVERY).await;
            expected = real.take(step).await?;
        }
        if expected != answered {
            return Ok(Some(format!(
                "seed {seed}, request {index}: {step:?}\n  server: {expected}\n  model:  {answered}"
            )));
        }
    }
    Ok(None)
}
