//! Many Leases, and large objects.

use futures::StreamExt as _;
use hustings_client::store::{Request, Store as _};
use hustings_core::model::CandidateState;
use serde_json::json;

use crate::controller::elections::in_state;
use crate::controller::peer::Peer;
use crate::controller::support::{AT_A_TIME, Controller, World, eventually, stand_many};

/// How much private memory a controller with 1,000 Leases and 3,000 candidates may use. The pages of the program itself,
/// 24 MiB in a debug build, do not count.
const LARGEST_MEMORY_KIB: u64 = 50 * 1024;

#[tokio::test]
async fn a_thousand_leases_with_three_candidates_each_fit_into_fifty_megabytes() {
    let world = World::new("load-leases").await;
    stand_many(&world, 3000, |number| (format!("c-{number}"), format!("work-{}", number / 3))).await;
    let world = &world;
    let store = &world.store();
    futures::stream::iter(0..1000)
        .for_each_concurrent(AT_A_TIME, |number| async move {
            let name = format!("work-{number}");
            store.send(&world.namespace, &Request::create_lease(&name)).await.unwrap();
            let held = json!({
                "metadata": { "annotations": { "hustings.io/session": "session/1/3600" } },
                "spec": { "holderIdentity": format!("c-{}", number * 3), "leaseDurationSeconds": 3600 },
            });
            world.patch_lease(&name, held).await;
        })
        .await;
    let controller = world.controller().await.ready().await;
    controller.leads().await;
    eventually("every Lease is known to be held", || async {
        let held = controller.metric(r#"hustings_leases{state="held"}"#).await;
        if held > 999.5 { Ok(()) } else { Err(held) }
    })
    .await;
    eventually("the queue is empty", || async {
        let depth = controller.metric("hustings_queue_depth").await;
        if depth < 0.5 { Ok(()) } else { Err(depth) }
    })
    .await;
    let memory = memory_kib(&controller);
    assert!(memory < LARGEST_MEMORY_KIB, "{memory} KiB");
}

#[tokio::test]
async fn objects_with_the_longest_names_and_large_annotations_are_elected_like_others() {
    let world = World::new("load-size").await;
    let controller = world.controller().await.ready().await;
    controller.leads().await;
    let (name, lease) = ("a".repeat(253), "w".repeat(253));
    let annotations = json!({ "example.com/a": "a".repeat(100_000) });
    world
        .create(json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "leaseName": lease, "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" },
        }))
        .await;
    let _life = Peer::live(&world, &lease, &name);
    world.led_by(&lease, &name).await;
    in_state(&world, &name, CandidateState::Holder).await;
}

fn memory_kib(controller: &Controller) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", controller.process.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}
