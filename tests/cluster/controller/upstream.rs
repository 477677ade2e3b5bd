//! The integration tests of Kubernetes' built-in controller by client-go's own electors: see
//! `docs/verification/upstream.md`. I7 takes an hour here, so only its transcript shows it. `revoked.rs` is I8.

use hustings_controlplane::{ControlPlane, NativeElection};

use crate::controller::support::{World, eventually};

type Native = World<Box<ControlPlane>>;

const OTHER_STRATEGY: &str = "foo.com/bar";

impl Native {
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
    let world = Native::with_native_election("upstream", NativeElection::Served).await;
    let version = |binary, emulation| ["--binary-version", binary, "--emulation-version", emulation];
    // I3: all of them stand before the first election.
    let mut several = Vec::new();
    for (index, emulation) in ["1.20.0", "1.19.0", "1.19.0", "1.19.0"].into_iter().enumerate() {
        let (name, binary) = (format!("i3-baz{index}"), if index == 2 { "1.19.0" } else { "1.20.0" });
        several.push(world.client_go_with("i3", &name, &version(binary, emulation)).await);
        eventually("it stands", || async { world.native().get(&name).await.map_err(|error| error.to_string()) }).await;
    }
    let _controller = world.controller_with(&["--native"]).await.ready().await;
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
    tokio::join!(i1, third_party, i6, e6);
}

#[tokio::test]
async fn a_better_client_go_candidate_replaces_the_holder_where_the_gate_is_on() {
    let world = Native::with_native_election("upstream-swap", NativeElection::On).await;
    let controller = world.controller_with(&["--native", "--native-stand-in"]).await;
    controller.reports("this controller elects native candidates").await;
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
