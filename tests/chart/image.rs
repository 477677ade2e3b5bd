//! The image. None is built in tests, which have no registry; but its last stage is nothing except the binary, and that
//! can be had by a change of root.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::{read, succeed};

const BINARY: &str = env!("CARGO_BIN_EXE_hustings");

#[test]
fn last_stage_is_the_binary_and_nothing_that_runs_beside_it() {
    let dockerfile = read("Dockerfile");
    let instructions = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
    };
    let (build, last) = dockerfile.split_once("FROM ${FINAL_IMAGE}\n").unwrap();
    assert!(instructions(build).contains(&"ARG FINAL_IMAGE=scratch".to_owned()));
    let expected = [
        "COPY LICENSE /LICENSE",
        "COPY --from=build /hustings /hustings",
        "USER 65532:65532",
        r#"ENTRYPOINT ["/hustings"]"#,
    ];
    assert_eq!(instructions(last), expected);
    let toolchain = format!("ARG BUILD_IMAGE=rust:{}-", env!("CARGO_PKG_RUST_VERSION"));
    assert!(instructions(build).iter().any(|line| line.starts_with(&toolchain)), "{toolchain}");
}

#[test]
fn binary_needs_nothing_but_itself() {
    let version = succeed(&run_in_empty_root("version", &["--version"]));
    assert_eq!(version, format!("hustings {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(succeed(&run_in_empty_root("crds", &["crds"])), read("crds/leasecandidates.yaml"));
}

/// Runs the binary as the image does: as user 65532 in a root that nobody can write to, with nothing in it but the
/// binary and, since the binary under test is not the static one, the libraries that it is linked to.
fn run_in_empty_root(name: &str, arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("root").join(name);
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).unwrap();
    fs::copy(BINARY, root.join("hustings")).unwrap();
    for library in libraries() {
        let copy = root.join(library.strip_prefix("/").unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(&library, &copy).unwrap();
    }
    // Root may change its root, also where it may not make namespaces, as in a container; others can in a namespace.
    let mut command = if fs::metadata(&root).unwrap().uid() == 0 {
        let mut command = Command::new("chroot");
        command.arg("--userspec=65532:65532").arg(&root);
        command
    } else {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-user=65532", "--map-group=65532"]).arg(format!("--root={}", root.display()));
        command
    };
    command.arg("/hustings").args(arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.output().unwrap()
}

/// The libraries of the binary; none if it is static.
fn libraries() -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(BINARY).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    listed.split_whitespace().filter(|word| word.starts_with('/') && word.contains(".so")).map(PathBuf::from).collect()
}
