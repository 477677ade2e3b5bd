//! Processes of their own: `hustings controller` and `hustings campaign`, each behind a proxy.

use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use hustings_controlplane::{ControlPlane, Process};
use serde_json::Value;
use tokio::task::AbortHandle;

use crate::cast::{LEASE, Stands};
use crate::proxy;
use crate::tap::Tap;

/// How programs are started.
#[derive(Clone)]
pub struct Programs {
    /// The program, and the argument that makes another program behave as the `hustings` binary.
    pub command: Vec<OsString>,
    /// The control plane: the programs end with it, and write to its folder.
    pub plane: Arc<ControlPlane>,
}

/// One of them.
pub struct Program {
    process: Arc<Process>,
    proxy: AbortHandle,
}

impl Programs {
    /// Starts a program that reaches the server through `tap`.
    pub fn start(&self, stands: Stands, tap: &Tap, namespace: &str) -> Result<Program> {
        static LIVES: AtomicU32 = AtomicU32::new(0);
        let name = format!("{namespace}.{}.{}", tap.role, LIVES.fetch_add(1, Ordering::Relaxed));
        let (proxy, kubeconfig) = proxy::open(tap.clone(), namespace)?;
        let path = self.plane.folder().join(format!("{name}.kubeconfig"));
        fs::write(&path, kubeconfig.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
        let [program, first @ ..] = &self.command[..] else { bail!("there is no program") };
        let mut command = Command::new(program);
        command.args(first).arg(if stands == Stands::Controller { "controller" } else { "campaign" });
        command.arg("--kubeconfig").arg(path).args(["--namespace", namespace]);
        if stands == Stands::Controller {
            // Their name in the election.
            command.env("POD_NAME", &*tap.role).args(["--watch-namespaces", namespace]);
            command.args(["--admin-address", "127.0.0.1:0", "--leader-elect-lease-duration", "5s"]);
            command.args(["--leader-elect-renew-deadline", "4500ms", "--leader-elect-retry-period", "800ms"]);
        } else {
            command.args(["--lease", LEASE, "--identity", &tap.role, "-o", "json"]);
            command.args(["--lease-duration", "5s", "--renew-deadline", "4500ms", "--retry-period", "800ms"]);
        }
        match stands {
            Stands::Controller => {}
            Stands::Direct => drop(command.arg("--direct")),
            Stands::As { binary, emulation } => {
                command.args(["--binary-version", binary, "--emulation-version", emulation]);
            }
            Stands::ByStrategy(strategy) => drop(command.args(["--binary-version", "1.0.0", "--strategy", strategy])),
            Stands::Preferring(_) => bail!("no command has a key"),
        }
        let process = Arc::new(self.plane.spawn(&name, command)?);
        let proxy = tokio::spawn(async move { match proxy.await {} }).abort_handle();
        Ok(Program { process, proxy })
    }
}

impl Program {
    /// The process.
    pub fn process(&self) -> Arc<Process> {
        Arc::clone(&self.process)
    }

    /// `kill -9`.
    pub fn kill(&self) {
        // It fails where it has ended.
        drop(self.process.kill());
        self.proxy.abort();
    }

    /// The token of the term that it leads, by its own report.
    pub fn leads(&self) -> Option<u64> {
        let log = fs::read_to_string(self.process.log()).unwrap_or_default();
        let lines = log.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut changes = lines.filter(|line| {
            matches!(line.get("event").and_then(Value::as_str), Some("leading" | "stopped" | "exiting"))
        });
        let last = changes.next()?;
        (last["event"] == "leading").then(|| last["token"].as_u64())?
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
