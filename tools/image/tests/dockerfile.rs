//! The Dockerfile makes the same image, from the same binary.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::fs;

use hustings_image::{Build, ENTRYPOINT, USER, labels};

#[test]
fn last_stage_makes_the_same_image() {
    let dockerfile = dockerfile();
    let (build, last) = dockerfile.split_once("FROM ${FINAL_IMAGE}\n").unwrap();
    assert!(build.lines().any(|line| line == "ARG FINAL_IMAGE=scratch"));
    let mut expected = labels().map(|(name, value)| format!("LABEL {name}=\"{value}\"")).to_vec();
    expected.extend(["WORKDIR /", "COPY LICENSE /LICENSE", "COPY --from=build /hustings /hustings"].map(str::to_owned));
    expected.extend([format!("USER {USER}"), format!("ENTRYPOINT [\"{ENTRYPOINT}\"]")]);
    let instructions: Vec<_> = last.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert_eq!(instructions, expected);
}

#[test]
fn binary_stage_runs_the_same_command_on_the_machines_own_platform() {
    let dockerfile = dockerfile();
    let build = Build::new(Some("\"$target\"".to_owned()), "release".to_owned()).unwrap();
    let command = format!("RUSTFLAGS=\"{}\" cargo {}", Build::RUSTFLAGS, build.arguments().join(" "));
    assert!(dockerfile.contains(&command), "{command}");
    assert!(dockerfile.contains("FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build\n"));
    let toolchain = format!("ARG BUILD_IMAGE=rust:{}-", env!("CARGO_PKG_RUST_VERSION"));
    assert!(dockerfile.lines().any(|line| line.starts_with(&toolchain)), "{toolchain}");
}

fn dockerfile() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Dockerfile")).unwrap()
}
