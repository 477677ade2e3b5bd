//! Builds the images of the tests, without Docker: the binaries and, where they are not static,
//! their libraries.

use std::{
    env,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// The image of the first container of each pod.
pub(crate) const PAUSE: &str = "docker.io/library/pause:test";

/// The layer that all images share.
const LAYER: &str = "layer.tar";

/// The image with the worker, and with `hustings` beside it.
pub const WORKER: &str = "worker:test";

/// The image of the quickstart's shell loop. Here it is this machine's shell.
const SHELL: &str = "busybox:1.37";

/// The programs of this machine in that image.
const SHELL_PROGRAMS: [&str; 2] = ["/bin/sh", "/bin/sleep"];

/// The image of the chart.
const HUSTINGS: &str = concat!("hustings:", env!("CARGO_PKG_VERSION"));

/// The variable that names an archive of the chart's image, as `hustings-image` makes it; `.ci/run` sets it.
const ARCHIVE: &str = "HUSTINGS_IMAGE_ARCHIVE";

/// The variable that names the binary built by the Dockerfile's commands; `.ci/run` sets it.
const BUILT_AS_IMAGE: &str = "HUSTINGS_IMAGE_BINARY";

/// The binaries from which the images are made.
#[derive(Clone, Debug)]
pub struct Images {
    hustings: PathBuf,
    worker: PathBuf,
    archive: Option<PathBuf>,
}

impl Images {
    /// Images of these binaries. `HUSTINGS_IMAGE_BINARY` may name another one of Hustings, and `HUSTINGS_IMAGE_ARCHIVE` the
    /// archive of the chart's image.
    pub fn new(hustings: impl Into<PathBuf>, worker: impl Into<PathBuf>) -> Self {
        let path = |variable: &str| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let hustings = path(BUILT_AS_IMAGE).unwrap_or_else(|| hustings.into());
        Self { hustings, worker: worker.into(), archive: path(ARCHIVE) }
    }

    /// Archives for `ctr images import`, in this order: one that it writes, with all images, which share one layer, and the
    /// chart's image if it was given as an archive.
    pub(crate) fn archives(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        Ok([self.write(folder)?].into_iter().chain(self.archive.clone()).collect())
    }

    fn write(&self, folder: &Path) -> Result<PathBuf> {
        let files = folder.join("images");
        let root = files.join("root");
        fs::create_dir_all(root.join("tmp")).context("cannot create the root of the images")?;
        fs::set_permissions(root.join("tmp"), Permissions::from_mode(0o1777)).context("cannot open /tmp to all")?;
        fs::create_dir(root.join("bin")).context("cannot create a folder of the images")?;
        let of_machine = SHELL_PROGRAMS.map(PathBuf::from);
        let programs = of_machine.iter().map(|program| (program.strip_prefix("/").unwrap_or(program), program));
        let binaries = [(Path::new("hustings"), &self.hustings), (Path::new("worker"), &self.worker)];
        for (name, binary) in binaries.into_iter().chain(programs) {
            copy(binary, &root.join(name))?;
            for library in libraries(binary)? {
                copy(&library, &root.join(library.strip_prefix("/").unwrap_or(&library)))?;
            }
        }
        tar(&root, &files.join(LAYER))?;
        fs::remove_dir_all(&root).context("cannot remove the root of the images")?;
        let digest = output(Command::new("sha256sum").arg(files.join(LAYER)))?;
        let digest = digest.split(' ').next().context("sha256sum printed nothing")?;
        let images: [(&str, &[&str]); 4] =
            [(HUSTINGS, &["/hustings"]), (WORKER, &["/worker"]), (PAUSE, &["/worker", "pause"]), (SHELL, &["/bin/sh"])];
        let mut manifest = Vec::new();
        for (number, (name, entrypoint)) in images.into_iter().enumerate() {
            let config = format!("{number}.json");
            fs::write(files.join(&config), configuration(digest, entrypoint)?.to_string())
                .with_context(|| format!("cannot write the configuration of {name}"))?;
            manifest.push(json!({"Config": config, "RepoTags": [name], "Layers": [LAYER]}));
        }
        fs::write(files.join("manifest.json"), json!(manifest).to_string()).context("cannot write the manifest")?;
        let archive = folder.join("images.tar");
        tar(&files, &archive)?;
        fs::remove_dir_all(&files).context("cannot remove the files of the images")?;
        Ok(archive)
    }
}

fn configuration(digest: &str, entrypoint: &[&str]) -> Result<Value> {
    let architecture = match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("the images have no name for the processor {other}"),
    };
    Ok(json!({
        "architecture": architecture,
        "os": "linux",
        "config": {"User": "65532:65532", "Entrypoint": entrypoint, "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    }))
}

/// The libraries that a binary is linked to, its loader included. A static binary has none.
fn libraries(binary: &Path) -> Result<Vec<PathBuf>> {
    let listed = Command::new("ldd").arg(binary).output().context("cannot run ldd")?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let paths = listed.split_whitespace().filter(|word| word.starts_with('/') && !word.ends_with(':'));
    Ok(paths.map(PathBuf::from).collect())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().context("a file is in no folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display())).map(drop)
}

fn tar(folder: &Path, archive: &Path) -> Result<()> {
    let mut command = Command::new("tar");
    command.arg("--create").arg("--file").arg(archive).arg("--directory").arg(folder);
    output(command.args(["--owner=0", "--group=0", "."])).map(drop)
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed ({})", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} printed no text"))
}
