//! The dependencies that the library adds to a program.

use std::process::Command;

use anyhow::{Context, Result, ensure};

#[test]
fn the_library_does_not_choose_the_version_of_kubernetes_and_has_no_command_line() -> Result<()> {
    let cargo = std::env::var("CARGO").context("tests are run by cargo")?;
    let output = Command::new(cargo)
        .args(["tree", "--locked", "--offline", "--package", "hustings-client", "--edges", "normal"])
        .args(["--prefix", "none", "--format", "{p} {f}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("cannot run cargo tree")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout)?;
    let of = |name: &str| tree.lines().find(|line| line.split(' ').next() == Some(name));
    let k8s_openapi = of("k8s-openapi").context("it depends on k8s-openapi")?;
    ensure!(!k8s_openapi.contains("v1_") && !k8s_openapi.contains("latest"), "{k8s_openapi}");
    for name in ["clap", "axum", "openssl", "aws-lc-rs", "anyhow", "hustings"] {
        ensure!(of(name).is_none(), "it depends on {name}");
    }
    Ok(())
}
