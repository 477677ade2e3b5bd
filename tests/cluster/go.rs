//! The tests of the Go module in `clients/go`, which start a controller of their own.

use std::path::Path;

use hustings_controlplane::ControlPlane;
use tokio::process::Command;

#[tokio::test]
async fn the_tests_of_the_go_module_pass() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let tests = Command::new("go")
        // Vet would examine all dependencies again, while other tests wait for the processor.
        .args(["test", "-count=1", "-timeout=15m", "-vet=off", "./..."])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/go"))
        .envs([("GOTOOLCHAIN", "local"), ("GOWORK", "off")])
        .env("HUSTINGS_TEST_KUBECONFIG", plane.kubeconfig())
        .env("HUSTINGS_TEST_BINARY", env!("CARGO_BIN_EXE_hustings"))
        .kill_on_drop(true)
        .output()
        .await
        .expect("the tests need Go");
    let output = [tests.stdout, tests.stderr].concat();
    assert!(tests.status.success(), "{}", String::from_utf8_lossy(&output));
}
