//! The files that configure the programs of a node.
//!
//! The rule behind the settings: the node reports soon, restarts soon, evicts nothing by itself, and stays in its cgroup.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use hustings_controlplane::NODE;
use serde_json::{Value, json};

use crate::images::PAUSE;

/// The socket of containerd, inside.
pub(crate) const CONTAINERD: &str = "/run/containerd/containerd.sock";

/// The folder of the manifests of static pods, in that of the run.
pub(crate) const MANIFESTS: &str = "manifests";

/// The addresses of pods.
const PODS: &str = "10.66.1.0/24";

/// Writes all files into a folder. `programs` is where containerd's are, and `cgroup` is for all containers.
pub(crate) fn write(folder: &Path, programs: &Path, cgroup: &str, proxy_kubeconfig: &Path) -> Result<()> {
    let network = folder.join("network");
    let manifests = folder.join(MANIFESTS);
    for folder in [&network, &manifests] {
        fs::create_dir(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let files = [
        (network.join("pods.conflist"), pod_network().to_string()),
        (folder.join("containerd.toml"), containerd(programs, &network)),
        (folder.join("kubelet.json"), kubelet(&folder.join("ca.crt"), &manifests, cgroup).to_string()),
        (folder.join("kube-proxy.json"), kube_proxy(proxy_kubeconfig).to_string()),
    ];
    for (path, text) in files {
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The scores of the machine's memory killer stay as they are where the machine does not allow a lower one.
fn containerd(programs: &Path, network: &Path) -> String {
    format!(
        r#"
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "{CONTAINERD}"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{}"]
conf_dir = "{}"
use_internal_loopback = true

[plugins."io.containerd.nri.v1.nri"]
disable = true
"#,
        programs.display(),
        network.display()
    )
}

/// Each pod has a link of its own to the node.
fn pod_network() -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{
            "type": "ptp",
            "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]},
        }],
    })
}

fn kubelet(authority: &Path, manifests: &Path, cgroup: &str) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": authority},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD}"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{cgroup}"),
        "failCgroupV1": false,
        "failSwapOn": false,
        "staticPodPath": manifests,
        "fileCheckFrequency": "1s",
        "resolvConf": "",
        "evictionHard": {
            "memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 8,
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
    })
}

/// A limit of 0 leaves the machine's settings of connection tracking alone.
fn kube_proxy(kubeconfig: &Path) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig},
        "mode": "nftables",
        "clusterCIDR": PODS,
        "hostnameOverride": NODE,
        "conntrack": {
            "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
        },
    })
}
