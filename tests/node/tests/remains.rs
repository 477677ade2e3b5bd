//! Nothing of a node outlives it, and nothing outside changes while it runs. What is left is looked up in `/proc`.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::{
    collections::BTreeSet,
    env, fs,
    io::{BufRead, BufReader, stdin},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use hustings_controlplane::{Process, eventually};
use hustings_node::{Images, Node, WORKER};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::PostParams};
use serde::{Deserialize, Serialize};
use serde_json::json;

const TEST: &str = "nothing_of_a_node_outlives_it_or_its_killed_process";

/// Set in the process that is killed.
const CHILD: &str = "HUSTINGS_KILLED_NODE";

/// Settings of the machine that a node would change.
const SETTINGS: [&str; 4] = ["vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "net/ipv4/ip_forward"];

/// By what a node is known outside.
#[derive(Serialize, Deserialize)]
struct Marks {
    folder: PathBuf,
    cgroup: String,
    /// Such as `net:[4026531840]`.
    namespaces: BTreeSet<String>,
}

/// What a node must not change.
#[derive(Debug, PartialEq, Eq)]
struct Outside {
    links: BTreeSet<String>,
    mounts: String,
    /// Of the firewall.
    rules: String,
    settings: [String; SETTINGS.len()],
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_node_outlives_it_or_its_killed_process() {
    if !Node::is_allowed() {
        return;
    }
    if env::var_os(CHILD).is_some() {
        let (node, _enforcer) = start().await;
        println!("\n{}", serde_json::to_string(&Marks::of(&node)).unwrap());
        // The pipe closes if the test ends otherwise.
        stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    let outside = Outside::now();
    let mut child = start_child();
    let (node, enforcer) = start().await;
    let marks = [Marks::of(&node), Marks::printed_by(&mut child)];
    assert_eq!(Outside::now(), outside);
    for marks in &marks {
        let left = marks.left();
        let enforcer = enforcer.as_ref().map(|_| "kube-router");
        for what in ["kubelet", "containerd-shim", "worker", "the cgroup", "the folder"].into_iter().chain(enforcer) {
            assert!(left.iter().any(|left| left.contains(what)), "a node has no {what}: {left:?}");
        }
    }

    child.kill().unwrap();
    child.wait().unwrap();
    drop((node, enforcer));
    for marks in &marks {
        eventually(async || {
            let left = marks.left();
            if left.is_empty() { Ok(()) } else { Err(left) }
        })
        .await
        .unwrap();
    }
    assert_eq!(Outside::now(), outside);
}

/// A node with a pod and, where the machine has its programs, the firewall.
async fn start() -> (Node, Option<Process>) {
    let images = Images::new(env!("CARGO_BIN_EXE_product"), env!("CARGO_BIN_EXE_worker"));
    let node = Node::start(images).await.unwrap();
    let mut enforcer = None;
    if Node::can_enforce_policies() {
        enforcer = Some(node.enforce_policies().await.unwrap());
    }
    let pods = Api::<Pod>::default_namespaced(node.plane().admin());
    let container = json!({"name": "c", "image": WORKER, "imagePullPolicy": "Never", "command": ["/worker", "pause"]});
    let pod = json!({"metadata": {"name": "pod"}, "spec": {"containers": [container]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    eventually(async || {
        let phase = pods.get("pod").await.map_err(|error| error.to_string())?.status.and_then(|status| status.phase);
        if phase.as_deref() == Some("Running") { Ok(()) } else { Err(format!("the pod is {phase:?}")) }
    })
    .await
    .unwrap();
    (node, enforcer)
}

/// This test again, in another process, which ends with this one.
fn start_child() -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", TEST, "--nocapture"]).env(CHILD, "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

impl Marks {
    fn of(node: &Node) -> Self {
        let plane = node.plane();
        let cgroup = plane.namespaces().unwrap().cgroup().to_owned();
        let mut marks = Self { folder: plane.folder().to_owned(), cgroup, namespaces: BTreeSet::new() };
        // The kubelet has those of the node, and each container some of its own.
        let kubelet = PathBuf::from(format!("/proc/{}", node.kubelet().pid()));
        let containers = tasks().into_iter().filter(|task| marks.are_in_cgroup(task));
        let inside: BTreeSet<_> = containers.chain([kubelet]).flat_map(|task| links(&task.join("ns"))).collect();
        let own: BTreeSet<_> = links(Path::new("/proc/self/ns")).into_iter().collect();
        marks.namespaces = inside.difference(&own).cloned().collect();
        marks
    }

    fn printed_by(child: &mut Child) -> Self {
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let line = lines.into_iter().find(|line| line.starts_with('{')).expect("the other node starts");
        serde_json::from_str(&line).unwrap()
    }

    /// What there is of the node.
    fn left(&self) -> Vec<String> {
        let mut left: Vec<_> = tasks().iter().filter_map(|task| self.why(task)).collect();
        let roots = fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|root| root.path());
        let cgroups = roots.chain([PathBuf::from("/sys/fs/cgroup")]).map(|root| root.join(&self.cgroup));
        left.extend(cgroups.filter(|cgroup| cgroup.exists()).map(|cgroup| format!("the cgroup {}", cgroup.display())));
        left.extend(self.folder.exists().then(|| format!("the folder {}", self.folder.display())));
        left
    }

    /// Why this thread of any process is of the node.
    fn why(&self, task: &Path) -> Option<String> {
        let read = |file: &str| String::from_utf8_lossy(&fs::read(task.join(file)).unwrap_or_default()).into_owned();
        let folder = self.folder.to_str().unwrap();
        let has_namespace = |from: &str| links(&task.join(from)).iter().any(|link| self.namespaces.contains(link));
        let reasons = [
            (self.are_in_cgroup(task), "is in its cgroup"),
            (has_namespace("ns"), "is in its namespaces"),
            (has_namespace("fd"), "has a namespace of it open"),
            (links(&task.join("fd")).iter().any(|link| link.starts_with(folder)), "has a file of it open"),
            (read("cmdline").contains(folder), "has an argument with its folder"),
            (read("mountinfo").contains(folder), "has a mount of it"),
        ];
        let why: Vec<_> = reasons.into_iter().filter_map(|(is_so, why)| is_so.then_some(why)).collect();
        (!why.is_empty()).then(|| format!("{} {} {}", task.display(), read("comm").trim(), why.join(", ")))
    }

    fn are_in_cgroup(&self, task: &Path) -> bool {
        fs::read_to_string(task.join("cgroup")).unwrap_or_default().contains(&self.cgroup)
    }
}

impl Outside {
    fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap();
        let links = read("/proc/self/net/dev")
            .lines()
            .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
            .collect();
        let settings = SETTINGS.map(|setting| read(&format!("/proc/sys/{setting}")));
        let rules = Command::new("nft").args(["list", "ruleset"]).output().unwrap();
        assert!(rules.status.success(), "{rules:?}");
        let rules = String::from_utf8(rules.stdout).unwrap();
        Self { links, mounts: read("/proc/self/mounts"), rules, settings }
    }
}

/// The threads of all processes.
fn tasks() -> Vec<PathBuf> {
    let processes = numbered(Path::new("/proc"));
    processes.iter().flat_map(|process| numbered(&process.join("task"))).collect()
}

fn numbered(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let numbered = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok()));
    numbered.map(|entry| entry.path()).collect()
}

/// What the links in a folder name.
fn links(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned())).collect()
}
