//! Builds etcd, the components of Kubernetes, kubectl, helm and replicas on client-go from their Go modules.
//!
//! After `git clone`, the tests must run with only Rust and Go, and without an image registry. So they build the
//! binaries at first use, from the modules in the folders next to `src/`, in `tests/kit/clientgo/` and in
//! `tests/kit/manager/`, whose contents go.sum pins. The rule that must hold: a binary is either absent or complete, and tests that start at the same time
//! build it once.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File, TryLockError},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

const CONTAINERD: &str = "github.com/containerd/containerd/v2";

/// Excludes filesystems from containerd that the tests do not use. One of them needs a C library.
const CONTAINERD_TAGS: &str = "no_btrfs no_zfs no_aufs no_devmapper";

/// A program that tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// The storage of the control plane.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The command line of Kubernetes.
    Kubectl,
    /// The controllers of Kubernetes. Only the tests of native candidates need it.
    KubeControllerManager,
    /// The scheduler of Kubernetes. Only the tests of native candidates need it.
    KubeScheduler,
    /// The program that runs the pods of a node. Only the tests on a node need it, like all others up to `Helm`.
    Kubelet,
    /// The network of Services on a node.
    KubeProxy,
    /// The program that runs the containers of a node.
    Containerd,
    /// The process that runs the containers of one pod for containerd.
    ContainerdShim,
    /// The command line of containerd.
    Ctr,
    /// The network plugin that links a pod to its node.
    Ptp,
    /// The network plugin that assigns a pod its address.
    HostLocal,
    /// The program that enforces NetworkPolicies on a node. Only the test of the chart's policy needs it.
    KubeRouter,
    /// Helm 4, which installs charts.
    Helm,
    /// Helm 3, which installs the same charts. Only the chart's tests need it.
    Helm3,
    /// A replica of a component that stands for a Lease with client-go.
    ClientGo,
    /// A replica that stands by the manager of controller-runtime, or by client-go's `RunOrDie`. Only the tests of
    /// assisted Leases on a node need it.
    Manager,
}

/// Where the programs come from.
#[derive(Clone, Debug)]
pub struct Tools {
    /// A folder with etcd, kube-apiserver and kubectl, as `setup-envtest` creates it. Programs in it are not built.
    pub assets: Option<PathBuf>,
    /// `PATH`, in which `go` is looked up.
    pub search_path: OsString,
    /// The folder for the programs that are built here.
    pub built: PathBuf,
}

/// A tool and its path, whether or not the file exists.
pub(crate) struct Program {
    pub(crate) tool: Tool,
    pub(crate) path: PathBuf,
    /// The arguments of `go`, without the name of the output and the package.
    pub(crate) arguments: Vec<String>,
    pub(crate) module: PathBuf,
}

impl Tool {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::Kubectl => "kubectl",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube-proxy",
            Self::Containerd => "containerd",
            Self::ContainerdShim => "containerd-shim-runc-v2",
            Self::Ctr => "ctr",
            Self::Ptp => "ptp",
            Self::HostLocal => "host-local",
            Self::KubeRouter => "kube-router",
            Self::Helm => "helm",
            Self::Helm3 => "helm3",
            Self::ClientGo => "clientgo",
            Self::Manager => "manager",
        }
    }

    pub(crate) const fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::KubeScheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kubelet => "k8s.io/kubernetes/cmd/kubelet",
            Self::KubeProxy => "k8s.io/kubernetes/cmd/kube-proxy",
            Self::Containerd => "github.com/containerd/containerd/v2/cmd/containerd",
            Self::ContainerdShim => "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            Self::Ctr => "github.com/containerd/containerd/v2/cmd/ctr",
            Self::Ptp => "github.com/containernetworking/plugins/plugins/main/ptp",
            Self::HostLocal => "github.com/containernetworking/plugins/plugins/ipam/host-local",
            Self::KubeRouter => "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router",
            Self::Helm => "helm.sh/helm/v4/cmd/helm",
            Self::Helm3 => "helm.sh/helm/v3/cmd/helm",
            Self::ClientGo => "hustings.io/tests/clientgo",
            Self::Manager => "hustings.io/tests/manager",
        }
    }

    /// The name that `go build` gives the program: the last part of the package, without a version.
    pub(crate) fn built_name(self) -> &'static str {
        let is_version = |part: &str| part.strip_prefix('v').is_some_and(|rest| rest.parse::<u32>().is_ok());
        self.package().rsplit('/').find(|part| !is_version(part)).unwrap_or_default()
    }

    pub(crate) fn module(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(match self {
            Self::Etcd
            | Self::KubeApiserver
            | Self::Kubectl
            | Self::KubeControllerManager
            | Self::KubeScheduler
            | Self::Kubelet
            | Self::KubeProxy => "kubernetes",
            Self::Containerd | Self::ContainerdShim | Self::Ctr | Self::Ptp | Self::HostLocal => "containers",
            Self::KubeRouter => "kube-router",
            Self::Helm => "helm",
            Self::Helm3 => "helm3",
            Self::ClientGo => "../clientgo",
            Self::Manager => "../manager",
        })
    }

    /// Whether `setup-envtest` provides it.
    pub(crate) const fn is_asset(self) -> bool {
        matches!(self, Self::Etcd | Self::KubeApiserver | Self::Kubectl)
    }
}

impl Tools {
    /// Uses `KUBEBUILDER_ASSETS` and `PATH` of this process, and `controlplane/bin` in cargo's target folder.
    pub fn from_env() -> Self {
        Self {
            assets: env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()).map(PathBuf::from),
            search_path: env::var_os("PATH").unwrap_or_default(),
            built: scratch().join("bin"),
        }
    }

    /// The path of a tool. Builds the tool if it is missing, which takes minutes and blocks.
    pub fn path(&self, tool: Tool) -> Result<PathBuf> {
        let program = self.program(tool)?;
        if !program.path.is_file() {
            self.prepare(&[tool])?;
        }
        Ok(program.path)
    }

    /// Finds out where a tool is, or where it would be built.
    pub(crate) fn program(&self, tool: Tool) -> Result<Program> {
        if let Some(assets) = &self.assets {
            let path = assets.join(tool.name());
            if path.is_file() {
                return Ok(Program { tool, path, arguments: Vec::new(), module: PathBuf::new() });
            }
            if tool.is_asset() {
                bail!("KUBEBUILDER_ASSETS names {}, which has no {}", assets.display(), tool.name());
            }
        }
        let module = tool.module();
        let go_mod = fs::read_to_string(module.join("go.mod"))
            .with_context(|| format!("cannot read go.mod of {}", tool.name()))?;
        let mut arguments: Vec<String> =
            ["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", &linker_flags(&go_mod)?]
                .map(str::to_owned)
                .into();
        if required(&go_mod, CONTAINERD).is_some() {
            arguments.extend(["-tags", CONTAINERD_TAGS].map(str::to_owned));
        }

        // Several versions may exist side by side, so that two branches do not rebuild each other's programs.
        let mut hasher = DefaultHasher::new();
        (&go_mod, &arguments).hash(&mut hasher);
        for source in sources(&module)? {
            source.hash(&mut hasher);
        }
        let folder = self.built.join(format!("{:016x}", hasher.finish()));
        Ok(Program { tool, path: folder.join(tool.name()), arguments, module })
    }

    /// One process builds at a time: Go's own parallelism fills the machine. The lock ends with the process that holds
    /// it.
    pub(crate) fn lock(&self, what: &str) -> Result<File> {
        fs::create_dir_all(&self.built).with_context(|| format!("cannot create {}", self.built.display()))?;
        let path = self.built.join("lock");
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => say(&format!("waiting for {what}: another build holds the lock")),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        Ok(file)
    }
}

/// `controlplane/` in cargo's target folder, wherever that is: the running program is inside the target folder, which
/// cargo marks with a CACHEDIR.TAG. A program that was moved elsewhere uses the target folder of the workspace.
pub(crate) fn scratch() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()).map(Path::to_path_buf);
    target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target")).join("controlplane")
}

/// The Go files of the module itself. Most modules have none.
fn sources(module: &Path) -> Result<Vec<String>> {
    let cannot_read = || format!("cannot read {}", module.display());
    let entries = fs::read_dir(module).and_then(Iterator::collect::<io::Result<Vec<_>>>).with_context(cannot_read)?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension() == Some(OsStr::new("go")));
    paths.sort();
    paths.iter().map(|path| fs::read_to_string(path).with_context(cannot_read)).collect()
}

/// The flags by which the linker sets the versions of programs. The linker ignores variables that a program lacks. A
/// Kubernetes program reports its version, and derives its feature gates from it. Helm 3 uses the version of its client
/// library for a cluster that it cannot query; Helm 4 determines it by itself.
pub(crate) fn linker_flags(go_mod: &str) -> Result<String> {
    let mut flags = "-s -w".to_owned();
    if let Some(version) = required(go_mod, "k8s.io/kubernetes") {
        let (major, minor) = major_and_minor(version)?;
        for (name, value) in [("gitVersion", format!("v{version}").as_str()), ("gitMajor", major), ("gitMinor", minor)]
        {
            flags.extend([" -X k8s.io/component-base/version.", name, "=", value]);
        }
    }
    if required(go_mod, "helm.sh/helm/v3").is_some()
        && let Some(version) = required(go_mod, "k8s.io/client-go")
    {
        let (_, minor) = major_and_minor(version)?;
        for package in ["chartutil", "lint/rules"] {
            for (name, value) in [("Major", "1"), ("Minor", minor)] {
                flags.extend([" -X helm.sh/helm/v3/pkg/", package, ".k8sVersion", name, "=", value]);
            }
        }
    }
    Ok(flags)
}

/// The version of a module that go.mod requires, without its `v`.
pub(crate) fn required<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    let version = |line: &'a str| line.trim().strip_prefix(module)?.strip_prefix(" v")?.split(' ').next();
    go_mod.lines().find_map(version)
}

fn major_and_minor(version: &str) -> Result<(&str, &str)> {
    let mut parts = version.split('.');
    let (Some(major), Some(minor)) = (parts.next(), parts.next()) else {
        bail!("go.mod requires version v{version}, which has no minor part");
    };
    Ok((major, minor))
}

/// Prints although libtest captures output: a build takes minutes, and the user must know why the test waits.
pub(crate) fn say(message: &str) {
    let _ = writeln!(io::stderr(), "controlplane: {message}");
}
