//! The integration tests of Kubernetes' built-in controller, with client-go's own electors: see
//! `docs/verification/upstream.md`. The controllers of I7 and I8 have namespaces of their own.

use hustings_controlplane::ControlPlane;
use serde_json::json;

use super::revoked::{native_controller, withhold};
use super::stand_in::standing_in;
use super::support::{Controller, World, eventually};

const OTHER_STRATEGY: &str = "foo.com/bar";

impl World {
    /// Another namespace of the same control plane.
    async fn beside(&self, name: &str) -> World<&ControlPlane> {
        let namespace = self.plane.create_namespace(name).await.unwrap();
        World { plane: &self.plane, client: self.client.clone(), namespace }
    }

    /// Waits until the Lease exists with the other strategy, without a holder.
    async fn is_left_to_the_other_strategy(&self, lease: &str) {
        eventually("the Lease is on hold", || async {
            let record = self.lease(lease).await.ok_or("no lease")?.record;
            let strategy = record.strategy.as_deref() == Some(OTHER_STRATEGY);
            if strategy && record.holder.is_none() && record.hold.is_some() {
                Ok(())
            } else {
                Err(format!("{record:?}"))
            }
        })
        .await;
    }
}

#[tokio::test]
async fn the_integration_cases_of_the_built_in_controller_end_alike_without_it() {
    let world = World::with_native("upstream").await;
    let version = |binary, emulation| ["--binary-version", binary, "--emulation-version", emulation];
    // I3: all of them stand before the first election.
    let mut several = Vec::new();
    for (index, emulation) in ["1.20.0", "1.19.0", "1.19.0", "1.19.0"].into_iter().enumerate() {
        let (name, binary) = (format!("i3-baz{index}"), if index == 2 { "1.19.0" } else { "1.20.0" });
        several.push(world.client_go_with("i3", &name, &version(binary, emulation)).await);
        eventually("it stands", || async { world.native().get(&name).await.map_err(|error| error.to_string()) }).await;
    }
    let controller = world.controller_with(&["--native"]).await.ready().await;
    world.led_by("i3", "i3-baz2").await;
    let i1 = async {
        let _foo = world.client_go_with("i1", "i1-foo", &version("1.20.0", "1.20.0")).await;
        world.led_by("i1", "i1-foo").await;
    };
    let third_party = async {
        let strategy = ["--strategy", OTHER_STRATEGY];
        let with = |binary, emulation| [version(binary, emulation).as_slice(), &strategy].concat();
        let _single = world.client_go_with("i2", "i2-foo", &with("1.20.0", "1.20.0")).await;
        let _first = world.client_go_with("i4", "i4-baz1", &with("1.20.0", "1.20.0")).await;
        let _second = world.client_go_with("i4", "i4-baz2", &with("1.20.0", "1.19.0")).await;
        let _third = world.client_go_with("i4", "i4-baz3", &with("1.19.0", "1.19.0")).await;
        world.is_left_to_the_other_strategy("i2").await;
        world.is_left_to_the_other_strategy("i4").await;
    };
    let i6 = async {
        let plain = world.client_go_with("i6", "i6-130", &[]).await;
        world.led_by("i6", "i6-130").await;
        let _coordinated = world.client_go_with("i6", "i6-131", &version("1.31.0", "1.31.0")).await;
        eventually("it stands", || async { world.native().get("i6-131").await.map_err(|error| error.to_string()) })
            .await;
        world.stays_with("i6", "i6-130").await;
        assert!(plain.process.stop().await.unwrap().success(), "{}", plain.log());
        world.led_by("i6", "i6-131").await;
    };
    let e6 = async {
        let coordinated = world.client_go_with("e6", "e6-131", &version("1.31.0", "1.31.0")).await;
        world.led_by("e6", "e6-131").await;
        let plain = world.client_go_with("e6", "e6-130", &[]).await;
        plain.says("observed", 0).await;
        world.stays_with("e6", "e6-131").await;
        assert!(coordinated.process.stop().await.unwrap().success(), "{}", coordinated.log());
        world.led_by("e6", "e6-130").await;
        plain.says("leading", 0).await;
    };
    tokio::join!(i1, third_party, i5_without_the_gate(&world, &controller), i6, i7(&world), i8(&world), e6);
}

/// Without the gate, nothing can ask a holder to hand over. A better candidate waits until the holder stops.
async fn i5_without_the_gate(world: &World, controller: &Controller) {
    let worse = world.client_go_with("i5", "i5-bar1", &["--binary-version", "1.20.0"]).await;
    world.led_by("i5", "i5-bar1").await;
    let better = world.client_go_with("i5", "i5-bar2", &["--binary-version", "1.19.0"]).await;
    let known = format!(r#"hustings_election_candidates{{namespace="{}",lease="i5"}}"#, world.namespace);
    eventually("the controller knows both", || async {
        let known = controller.metric_if_any(&known).await?;
        if known > 1.5 { Ok(()) } else { Err(known.to_string()) }
    })
    .await;
    world.stays_with("i5", "i5-bar1").await;
    let record = world.lease("i5").await.unwrap().record;
    assert_eq!((record.preferred_holder, record.native.preferred_holder), (None, None));
    let waits = world.native().get("i5-bar2").await.unwrap().data;
    assert!(waits["spec"]["pingTime"].is_null(), "a request that the server drops needs no ping: {waits}");
    let asked = controller.metric(r#"hustings_preemptions_total{reason="emulation-version"}"#).await;
    assert!(asked < 0.5, "no holder may be asked, and {asked} were");
    assert!(worse.process.stop().await.unwrap().success(), "{}", worse.log());
    better.says("leading", 0).await;
}

/// A dead candidate is deleted. Upstream also deletes one whose clock is an hour behind; here it leads.
async fn i7(world: &World) {
    let world = world.beside("upstream-cleanup").await;
    let _controller = world.controller_with(&["--native", "--candidate-validity=10s"]).await;
    let long_ago = "2020-01-01T00:00:00.000000Z";
    let expired = json!({ "leaseName": "i7", "binaryVersion": "0.1.0", "emulationVersion": "0.1.0",
        "strategy": "OldestEmulationVersion", "renewTime": long_ago });
    world.stand_native("i7-expired", expired).await;
    let _slow = world.client_go_with("i7", "i7-slow", &["--binary-version=0.2.0", "--clock-offset=-1h"]).await;
    eventually("the dead candidate is deleted", || async {
        let candidate = world.native().get_opt("i7-expired").await.unwrap();
        candidate.map_or(Ok(()), |candidate| Err(candidate.data))
    })
    .await;
    world.led_by("i7", "i7-slow").await;
    assert!(world.native().get_opt("i7-slow").await.unwrap().is_some(), "it answers its pings");
}

/// If a controller may not write its own Lease, another takes over, and later the first takes over from that one.
async fn i8(world: &World) {
    let world = world.beside("upstream-transfer").await;
    let first = native_controller(&world, "first").await;
    first.leads().await;
    let second = native_controller(&world, "second").await;
    let start = async |lease: &str| {
        let replica = world.client_go_with(lease, &format!("{lease}-a"), &["--binary-version=1.36.0"]).await;
        replica.says("leading", 0).await;
        replica
    };
    let elected_by_first = start("i8-first").await;
    withhold(&world, "first", Some("leases")).await;
    second.leads().await;
    first.logged("grant the verb patch on leases.coordination.k8s.io").await;
    let _elected_by_second = start("i8-second").await;
    assert!(second.process.stop().await.unwrap().success());
    withhold(&world, "first", None).await;
    first.leads().await;
    let _elected_at_last = start("i8-third").await;
    assert_eq!(elected_by_first.terms().len(), 1, "a holder loses nothing when controllers change");
    assert!(elected_by_first.leads());
}

#[tokio::test]
async fn a_better_client_go_candidate_replaces_the_holder_where_the_gate_is_on() {
    let (world, _) = standing_in("upstream-swap").await;
    let worse = world.client_go_with("i5", "bar1", &["--binary-version", "1.20.0"]).await;
    worse.says("leading", 0).await;
    let better = world.client_go_with("i5", "bar2", &["--binary-version", "1.19.0"]).await;
    let led = better.says("leading", 0).await.time;
    let stopped = worse.says("stopped", 0).await.time;
    assert!(stopped <= led, "{stopped} {led}");
    let record = world.led_by("i5", "bar2").await.record;
    assert_eq!((record.transitions, &record.native.preferred_holder), (2, &None), "{record:?}");
    assert_eq!(record.native.strategy.as_deref(), Some("OldestEmulationVersion"));
}
