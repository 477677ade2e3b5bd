//! Replicas in time namespaces. Their CLOCK_BOOTTIME and CLOCK_MONOTONIC differ by days, as between machines; the wall
//! clock is the same.

use std::path::Path;
use std::process::Command;

use hustings_controlplane::ControlPlane;

use crate::replica::{Replica, campaign};

/// Twelve days.
pub(crate) const SHIFT: &str = "1036800";

const UNSHARE: [&str; 6] = ["--time", "--boottime", SHIFT, "--monotonic", SHIFT, "--"];

/// Why this machine has no time namespaces.
pub(crate) fn obstacle() -> Option<String> {
    let tried = Command::new("unshare").args(UNSHARE).args(["cat", "/proc/uptime"]).output();
    match tried {
        Err(error) => Some(format!("unshare cannot be run: {error}")),
        Ok(output) if !output.status.success() => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Ok(output) => {
            let seconds = |text: &str| text.split('.').next().and_then(|text| text.parse::<u64>().ok());
            let here = std::fs::read_to_string("/proc/uptime").ok().as_deref().and_then(seconds);
            let there = seconds(&String::from_utf8_lossy(&output.stdout));
            let shifted = there.zip(here).is_some_and(|(there, here)| there > here + 1_000_000);
            (!shifted).then(|| "the clocks of a time namespace are not shifted".to_owned())
        }
    }
}

/// A replica in direct mode, with or without a time namespace of its own.
pub(crate) fn start(
    plane: &ControlPlane,
    kubeconfig: &Path,
    namespace: &str,
    lease: &str,
    suffix: &str,
    is_shifted: bool,
) -> Replica {
    let name = format!("{lease}-{suffix}");
    let flags = ["--direct", "--lease-duration=10s", "--renew-deadline=8s", "--retry-period=500ms"];
    let command = campaign(kubeconfig, namespace, lease, &name, &flags);
    let command = if is_shifted { shifted(&command) } else { command };
    Replica::start(plane, namespace, &name, command)
}

/// The same program in a time namespace; unshare becomes it, so that the process is its own.
fn shifted(command: &Command) -> Command {
    let mut shifted = Command::new("unshare");
    shifted.args(UNSHARE).arg(command.get_program()).args(command.get_args());
    shifted
}
