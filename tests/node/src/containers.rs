//! The processes of containers, seen from the machine: a test kills them as the kernel would, past all of Kubernetes, or
//! opens a connection in their network.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use hustings_controlplane::run_in_network;
use k8s_openapi::api::core::v1::Pod;
use rustix::process::{Pid, Signal, kill_process};

use crate::Node;

/// Where the kernel lists the processes of a cgroup: on cgroup v1 each controller has the same ones.
const CGROUPS: [&str; 2] = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"];

impl Node {
    /// The numbers, on this machine, of the processes of a pod's container.
    fn processes(&self, pod: &Pod, container: &str) -> Result<Vec<String>> {
        let id = container_id(pod, container).with_context(|| format!("container {container} has no number yet"))?;
        let namespaces = self.plane().namespaces().context("the control plane has no namespaces")?;
        let roots = CGROUPS.map(|root| Path::new(root).join(namespaces.cgroup()));
        let root = roots.iter().find(|root| root.is_dir()).context("the node has no cgroup")?;
        let cgroup = find(root, id).with_context(|| format!("no cgroup of container {id}"))?;
        Ok(fs::read_to_string(cgroup.join("cgroup.procs"))?.lines().map(str::to_owned).collect())
    }

    /// The number of the first process of a pod's container. A probe's process may have a lower one.
    fn first_process(&self, pod: &Pod, container: &str) -> Result<Pid> {
        let processes = self.processes(pod, container)?;
        let first = processes.iter().find(|process| is_first(process));
        let first = first.with_context(|| format!("container {container} has no first process"))?;
        Pid::from_raw(first.parse()?).context("no process has this number")
    }

    /// Runs a function in the network of a pod, which all its containers share. Sockets in the result stay in that network.
    pub fn run_in_pod<T: Send>(&self, pod: &Pod, container: &str, function: impl FnOnce() -> T + Send) -> Result<T> {
        let first = self.first_process(pod, container)?;
        run_in_network(&PathBuf::from(format!("/proc/{}/ns/net", first.as_raw_pid())), function)
    }

    /// Sends a signal to the first process of a pod's container, from outside.
    pub fn signal(&self, pod: &Pod, container: &str, signal: Signal) -> Result<()> {
        let first = self.first_process(pod, container)?;
        kill_process(first, signal).with_context(|| format!("cannot send {signal:?} to process {first:?}"))
    }

    /// Sends a signal to each process of a pod's container: one that stops the first alone does not stop the others.
    pub fn signal_all(&self, pod: &Pod, container: &str, signal: Signal) -> Result<()> {
        for process in self.processes(pod, container)? {
            let process = Pid::from_raw(process.parse()?).context("no process has this number")?;
            kill_process(process, signal).with_context(|| format!("cannot send {signal:?} to process {process:?}"))?;
        }
        Ok(())
    }
}

/// Whether this process has the number 1 in its own namespace.
fn is_first(process: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    numbers.split_whitespace().next_back() == Some("1")
}

/// What containerd calls the container of a pod.
fn container_id<'pod>(pod: &'pod Pod, container: &str) -> Option<&'pod str> {
    let status = pod.status.as_ref()?;
    let statuses = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let mut statuses = statuses.filter(|status| status.name == container);
    statuses.next()?.container_id.as_deref()?.strip_prefix("containerd://")
}

/// The folder of this name.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let folders = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    folders.into_iter().find_map(|path| if path.ends_with(name) { Some(path) } else { find(&path, name) })
}
