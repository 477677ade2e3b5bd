//! One run of `go build`, for programs of one module.
//!
//! Programs of one module share most of their packages. Two runs at the same time would compile the shared ones twice,
//! so one run builds all of them.

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, setpriority_process};

use crate::tools::{Program, Tools};

/// An argument of `go build` that changes no program, so it does not count for where a program is. The compiler leaves
/// out what the linker would remove, and needs an eighth less CPU time.
const WITHOUT_DWARF: &str = "-gcflags=all=-dwarf=false";

/// The compiler collects its garbage less often, which saves a sixth of its CPU time, until it needs much memory.
const COLLECTOR: [(&str, &str); 2] = [("GOGC", "400"), ("GOMEMLIMIT", "1500MiB")];

/// How many packages programs have, and how many of them are compiled.
#[derive(Default)]
pub(crate) struct Packages {
    pub(crate) all: AtomicUsize,
    pub(crate) compiled: AtomicUsize,
}

impl Tools {
    /// Builds programs of one module into one folder.
    pub(crate) fn go_build(&self, programs: &[Program], packages: &Packages) -> Result<()> {
        let Some(first) = programs.first() else { return Ok(()) };
        let folder = first.path.parent().unwrap_or(&self.built);
        // The remains of a killed build are in the way.
        let partial = folder.join("partial");
        match fs::remove_dir_all(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", partial.display()));
            }
            _ => fs::create_dir_all(&partial).with_context(|| format!("cannot create {}", partial.display()))?,
        }
        let names: Vec<_> = programs.iter().map(|program| program.tool.package()).collect();
        // Only for the reports of progress. What is wrong, the build will say.
        if let Ok(listed) = self.go(&first.module).args(["list", "-mod=readonly", "-deps"]).args(&names).output() {
            packages.all.store(listed.stdout.split(|byte| *byte == b'\n').count(), Ordering::Relaxed);
        }
        let mut command = self.go(&first.module);
        command.args(&first.arguments).args(["-v", WITHOUT_DWARF, "-o"]).arg(&partial).args(&names);
        if let Err(error) = run(&mut command, &packages.compiled) {
            let missing =
                error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::NotFound);
            let name = first.tool.name();
            if !missing {
                let module = first.module.join("go.mod");
                bail!(
                    "go build of {name} failed ({error})\nhint: {} says which version of Go it takes",
                    module.display()
                );
            }
            let otherwise = if first.tool.is_asset() {
                ", or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl \
                 (`setup-envtest use -p path` makes one)"
            } else {
                ""
            };
            bail!("cannot build {name}: there is no `go` in PATH\nhint: install Go (https://go.dev/dl){otherwise}");
        }
        for Program { tool, path, .. } in programs {
            let built = partial.join(tool.built_name());
            fs::rename(&built, path)
                .with_context(|| format!("cannot move {} to {}", built.display(), path.display()))?;
        }
        fs::remove_dir(&partial).with_context(|| format!("cannot remove {}", partial.display()))
    }

    fn go(&self, module: &Path) -> Command {
        let mut command = Command::new("go");
        command
            .current_dir(module)
            .env("PATH", &self.search_path)
            .envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local"), ("GOWORK", "off")])
            .envs(COLLECTOR)
            .stdin(Stdio::null());
        command
    }
}

/// Runs `go build -v`, counts the packages that it names, and prints everything else that it prints.
fn run(command: &mut Command, compiled: &AtomicUsize) -> Result<()> {
    let mut go = command.stderr(Stdio::piped()).spawn()?;
    // What runs meanwhile is a test with limits; a build has none.
    let _ = setpriority_process(Some(Pid::from_child(&go)), 10);
    for line in go.stderr.take().map(BufReader::new).into_iter().flat_map(BufReader::lines) {
        let line = line.context("cannot read what go prints")?;
        if line.contains([' ', ':']) {
            // Directly, because libtest captures the output of macros.
            let _ = writeln!(io::stderr(), "{line}");
        } else {
            compiled.fetch_add(1, Ordering::Relaxed);
        }
    }
    let status = go.wait().context("cannot wait for go")?;
    ensure!(status.success(), "{status}");
    Ok(())
}
