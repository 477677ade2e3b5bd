//! The API server of another release of Kubernetes. Its Go module is not committed: it is `kubernetes/go.mod` with
//! other version numbers.

use std::{fs, os::unix::fs::symlink, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{
    Tool, Tools,
    go::Packages,
    tools::{Program, linker_flags, required, say, scratch},
};

impl Tools {
    /// The release of Kubernetes that is built here, such as `1.37.2`.
    pub fn own_release() -> Result<String> {
        let go_mod = fs::read_to_string(Tool::KubeApiserver.module().join("go.mod"))?;
        required(&go_mod, "k8s.io/kubernetes").map(str::to_owned).context("go.mod requires no Kubernetes")
    }

    /// These tools with the kube-apiserver of a release, such as `1.35.4`. Builds it if it is missing, which takes many
    /// minutes and blocks.
    pub fn of_release(&self, version: &str) -> Result<Self> {
        if version == Self::own_release()? {
            return Ok(Self { assets: None, ..self.clone() });
        }
        let folder = scratch().join("releases").join(version);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let server = folder.join(Tool::KubeApiserver.name());
        if !server.is_file() {
            let go_mod = fs::read_to_string(Tool::KubeApiserver.module().join("go.mod"))?;
            fs::write(folder.join("go.mod"), rewritten(&go_mod, version)?).context("cannot write go.mod")?;
            let tidied = Command::new("go")
                .args(["mod", "tidy"])
                .current_dir(&folder)
                .env("PATH", &self.search_path)
                .envs([("GOFLAGS", "-mod=mod"), ("GOTOOLCHAIN", "local"), ("GOWORK", "off")])
                .status()
                .context("cannot run go")?;
            ensure!(tidied.success(), "go mod tidy failed for Kubernetes {version}: does the Go module proxy have it?");
            let go_mod = fs::read_to_string(folder.join("go.mod"))?;
            let flags = linker_flags(&go_mod)?;
            let arguments = ["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", &flags];
            let arguments = arguments.map(str::to_owned).into();
            let (path, module) = (server, folder.clone());
            say(&format!("building kube-apiserver {version} (five minutes of CPU time)"));
            self.go_build(&[Program { tool: Tool::KubeApiserver, path, arguments, module }], &Packages::default())?;
        }
        for tool in [Tool::Etcd, Tool::Kubectl] {
            let link = folder.join(tool.name());
            if !link.is_file() {
                // Replace a link whose target is gone.
                let _ = fs::remove_file(&link);
                let target = fs::canonicalize(self.path(tool)?)?;
                symlink(target, &link).with_context(|| format!("cannot link {}", link.display()))?;
            }
        }
        Ok(Self { assets: Some(folder), ..self.clone() })
    }
}

/// The module with another release of Kubernetes. `go mod tidy` finds the rest of its requirements.
fn rewritten(go_mod: &str, version: &str) -> Result<String> {
    let of_staging = |version: &str| {
        let rest = version.strip_prefix("1.").with_context(|| format!("not a release of Kubernetes: {version}"))?;
        anyhow::Ok(format!("v0.{rest}"))
    };
    let here = required(go_mod, "k8s.io/kubernetes").context("go.mod requires no Kubernetes")?;
    let (_, replaced) = go_mod.split_once("replace (").context("go.mod replaces no modules")?;
    let replaced = replaced.replace(&of_staging(here)?, &of_staging(version)?);
    let tool = Tool::KubeApiserver.package();
    Ok(format!(
        "module hustings.io/controlplane/release\n\ngo 1.26.0\n\ntool {tool}\n\n\
         require k8s.io/kubernetes v{version}\n\nreplace ({replaced}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_of_another_release_has_its_versions_only() {
        let go_mod =
            "require (\n\tk8s.io/kubernetes v1.37.2 // indirect\n)\nreplace (\n\tk8s.io/api => k8s.io/api v0.37.2\n)\n";
        let other = rewritten(go_mod, "1.35.4").expect("it is well formed");
        assert!(other.contains("k8s.io/kubernetes v1.35.4") && other.contains("k8s.io/api v0.35.4"), "{other}");
        assert!(!other.contains("37"), "{other}");
        assert!(rewritten(go_mod, "2.0.0").is_err());
    }
}
