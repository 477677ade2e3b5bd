//! The image's binary. The image holds no other program, so a change of root has the same effect as a container.

use std::{
    env, fs, iter,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use super::{read, succeed};

/// The variable that names the image's own binary, whose build takes minutes: `.ci/run` does that.
/// Without it the tests use this build's binary, which is linked to libraries.
const BUILT_AS_IMAGE: &str = "HUSTINGS_IMAGE_BINARY";

#[test]
fn binary_needs_nothing_but_itself() {
    let version = succeed(&image("version").command.arg("--version").output().unwrap());
    assert_eq!(version, format!("hustings {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(succeed(&image("crds").command.arg("crds").output().unwrap()), read("crds/leasecandidates.yaml"));
}

/// The image's binary, ready to run as in the image: as user 65532 in a read-only root.
pub(super) struct Image {
    /// The root. It holds the binary and, if that is not static, the libraries that it is linked to.
    pub(super) root: Root,
    /// The command, without arguments and with nothing of this process's environment.
    pub(super) command: Command,
}

/// A folder. Dropping this value removes it.
pub(super) struct Root(pub(super) PathBuf);

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Creates the root; each test has one with another name.
pub(super) fn image(name: &str) -> Image {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("root").join(name);
    let _ = fs::remove_dir_all(&root);
    for file in iter::once(PathBuf::from("/hustings")).chain(libraries()) {
        let source = if file == Path::new("/hustings") { binary() } else { file.clone() };
        let copy = root.join(file.strip_prefix("/").unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        let source = fs::canonicalize(source).unwrap();
        if fs::hard_link(&source, &copy).is_err() {
            // Copy in a separate process. A child that another thread starts at this moment inherits every file that
            // this process has open for writing, and such a file cannot be executed.
            assert!(Command::new("cp").args([source, copy]).status().unwrap().success());
        }
    }
    // The root user may change its root, also where it may not create namespaces, as in a container. Other users can in a
    // namespace.
    let mut command = if fs::metadata(&root).unwrap().uid() == 0 {
        let mut command = Command::new("chroot");
        command.arg("--userspec=65532:65532").arg(&root);
        command
    } else {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-user=65532", "--map-group=65532"]).arg(format!("--root={}", root.display()));
        command
    };
    command.arg("/hustings").env_clear().env("PATH", env::var_os("PATH").unwrap_or_default());
    Image { root: Root(root), command }
}

fn binary() -> PathBuf {
    env::var_os(BUILT_AS_IMAGE).map_or_else(|| env!("CARGO_BIN_EXE_hustings").into(), PathBuf::from)
}

/// The libraries of the binary; none if it is static, as the image's binary must be.
fn libraries() -> Vec<PathBuf> {
    if env::var_os(BUILT_AS_IMAGE).is_some() {
        return Vec::new();
    }
    let output = Command::new("ldd").arg(binary()).output().unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    listed.split_whitespace().filter(|word| word.starts_with('/') && word.contains(".so")).map(PathBuf::from).collect()
}
