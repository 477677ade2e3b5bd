//! The pictures of the documentation.

use std::time::Duration;

use k8s_openapi::ByteString;
use serde_json::json;

use super::Served;
use super::browser::{DESKTOP, PHONE, with_browser};
use crate::controller::peer::Peer;
use crate::controller::support::World;

/// Rewrites docs/images: `cargo test --test cluster -- ui::screenshots --ignored`.
#[tokio::test]
#[ignore = "it writes the pictures of the documentation"]
async fn screenshots() {
    let world = World::new("shop").await;
    let served = Served::start(&world);
    let spec = |lease: &str| json!({ "leaseName": lease, "binaryVersion": "1.4.0", "emulationVersion": "1.4.0" });
    let mut peers = Vec::new();
    for (lease, replicas) in [("checkout", 3), ("ledger", 2), ("mailer", 1), ("search", 2), ("billing", 2)] {
        for number in 0..replicas {
            peers.push(Peer::start(&world, lease, &format!("{lease}-{number}"), &format!("1.{}.0", 4 + number)).await);
        }
    }
    world.stand("reports-0", spec("reports")).await;
    for (lease, leader) in
        [("checkout", "checkout-0"), ("ledger", "ledger-0"), ("search", "search-0"), ("billing", "billing-0")]
    {
        world.led_by(lease, leader).await;
    }
    let pause = json!({ "hustings.io/hold": "database migration", "hustings.io/hold-until": "2099-01-02T04:00:00Z" });
    world.patch_lease("billing", json!({ "metadata": { "annotations": pause } })).await;
    let gone = peers.iter().position(|peer| peer.name == "checkout-0").unwrap();
    peers.remove(gone).crash();
    world.led_by("checkout", "checkout-1").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    peers.push(Peer::start(&world, "checkout", "checkout-old", "1.3.0").await);
    world.led_by("checkout", "checkout-old").await;
    let pictures = [
        ("list", DESKTOP, None),
        ("lease", DESKTOP, Some("checkout")),
        ("phone", PHONE, Some("checkout")),
        ("phone-list", PHONE, None),
    ];
    for (name, screen, lease) in pictures {
        with_browser(&world.plane, screen, async |browser| {
            served.open(browser, lease).await;
            browser.wait("all rows", "document.querySelectorAll('#rows tr').length === 6").await;
            browser.wait("nobody leads reports", "document.querySelector('#rows tr.critical') !== null").await;
            let png: ByteString = serde_json::from_value(browser.screenshot().await).unwrap();
            assert!(png.0.len() < 150_000, "{name}: {} bytes", png.0.len());
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/images");
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(format!("{folder}/ui-{name}.png"), png.0).unwrap();
        })
        .await;
    }
}
