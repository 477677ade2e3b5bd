//! Finds the API server and the namespace of a command.
//!
//! The rule that must hold: a command accepts the kubeconfig files and proxies that kubectl accepts, with the same
//! meaning. It refuses what kubectl refuses, and its error names the field or the variable. `docs/guides/access.md` lists
//! the few differences.

mod address;
pub(crate) mod cause;
mod choice;
mod document;
mod kubeconfig;
mod proxy;
mod user;

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::Path;

use anyhow::anyhow;
use hustings_client::api::names::is_dns_label;
use kube::Config;

use self::choice::{AccessSurroundings, Refusal};
use self::kubeconfig::Kubeconfig;
use crate::base::hint::Hinted;

/// The directory of a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The settings of a command's access to a cluster.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The kubeconfig file; `None` to try `KUBECONFIG`, the pod's service account and `~/.kube/config`, in this order.
    pub kubeconfig: Option<String>,
    /// The context of the kubeconfig file; `None` for its current context.
    pub context: Option<String>,
    /// The namespace of this process and of its Leases; `None` for that of the service account or context.
    pub namespace: Option<String>,
}

impl Access {
    /// Loads the configuration of the client of `command`.
    ///
    /// # Errors
    /// Fails with a hint if the configuration cannot be loaded.
    pub fn load(&self, command: &str) -> anyhow::Result<Config> {
        // Standard input belongs to a wrapped command, and to the shell that completes a word.
        let is_free = !matches!(command, "run" | "completion");
        let surroundings = AccessSurroundings { has_terminal: is_free && std::io::stdin().is_terminal() };
        self.read(surroundings).map_err(|Refusal { cause, hint }| {
            anyhow!(cause).context(Hinted::new("cannot load the cluster configuration", hint))
        })
    }

    /// The contexts of the kubeconfig files.
    pub fn contexts(&self) -> Vec<String> {
        let kubeconfig = self.kubeconfig().ok().flatten().unwrap_or_default();
        kubeconfig.contexts.into_keys().collect()
    }

    fn read(&self, surroundings: AccessSurroundings) -> Result<Config, Refusal> {
        let paths = std::env::var_os("KUBECONFIG");
        if self.may_be_that_of_a_pod(paths.as_deref())
            && let Some(config) = of_pod()
        {
            return Ok(config);
        }
        let kubeconfig = self.kubeconfig()?;
        // Like kubectl: files that say nothing count as none.
        if self.context.is_none()
            && kubeconfig.as_ref().is_none_or(Kubeconfig::is_empty)
            && let Some(config) = of_pod()
        {
            return Ok(config);
        }
        let Some(kubeconfig) = kubeconfig.filter(|kubeconfig| !kubeconfig.files.is_empty()) else {
            let hint = "pass --kubeconfig, set KUBECONFIG, or run in a pod with a service account";
            let cause = match paths.filter(|paths| !paths.is_empty()) {
                Some(paths) => format!("KUBECONFIG names no file that exists: {}", paths.display()),
                None => "there is no kubeconfig file".to_owned(),
            };
            return Err(Refusal::new(cause, hint));
        };
        let variable = |name: &str| std::env::var(name).ok();
        let mut choice = choice::choose(&kubeconfig, self.context.as_deref(), surroundings, variable)?;
        let namespace = choice.namespace.as_deref().filter(|_| self.namespace.is_none());
        if let Some(malformed) = namespace.filter(|namespace| !is_dns_label(namespace)) {
            let cause = format!("namespace {malformed:?} of the context is not a valid name");
            return Err(Refusal::new(cause, "use lower-case letters, digits and \"-\", or pass --namespace"));
        }
        if choice.namespace.is_none()
            && is_in_pod()
            && let Some(namespace) = namespace_of_pod()
        {
            choice.config.default_namespace = namespace;
        }
        Ok(choice.config)
    }

    /// Reads the files that the user asks for, or else the file in the home directory.
    fn kubeconfig(&self) -> Result<Option<Kubeconfig>, Refusal> {
        let variable = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty());
        let (read, hint) = match (&self.kubeconfig, variable) {
            (Some(path), _) => {
                (Kubeconfig::read(Path::new(path)), "set --kubeconfig to the path of a readable kubeconfig file")
            }
            (None, Some(paths)) => (Kubeconfig::read_list(&paths), "correct the file, or the list in KUBECONFIG"),
            (None, None) => {
                let Some(home) = std::env::home_dir() else { return Ok(None) };
                (Kubeconfig::read_list(home.join(".kube/config").as_os_str()), "correct the file, or pass --kubeconfig")
            }
        };
        read.map(Some).map_err(|cause| Refusal::new(cause, hint))
    }

    /// Whether the user asks for no kubeconfig. In a pod, the command then uses the pod's ServiceAccount.
    fn may_be_that_of_a_pod(&self, kubeconfig_paths: Option<&OsStr>) -> bool {
        self.kubeconfig.is_none() && self.context.is_none() && kubeconfig_paths.is_none_or(OsStr::is_empty)
    }
}

/// The configuration of a pod's service account, outside of which there is none.
fn of_pod() -> Option<Config> {
    if !is_in_pod() {
        return None;
    }
    let mut config = Config::incluster().ok()?;
    if let Some(namespace) = namespace_of_pod() {
        config.default_namespace = namespace;
    }
    Some(config)
}

/// Whether this process has a pod's service account.
fn is_in_pod() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_set("KUBERNETES_SERVICE_HOST")
        && is_set("KUBERNETES_SERVICE_PORT")
        && Path::new(SERVICE_ACCOUNT).join("token").is_file()
}

fn namespace_of_pod() -> Option<String> {
    let of_file = || std::fs::read_to_string(Path::new(SERVICE_ACCOUNT).join("namespace")).ok();
    let namespace = std::env::var("POD_NAMESPACE").ok().filter(|name| !name.is_empty()).or_else(of_file)?;
    Some(namespace.trim().to_owned()).filter(|namespace| !namespace.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kubeconfig_that_is_asked_for_precedes_the_service_account_of_a_pod() {
        let access = |kubeconfig: Option<&str>, context: Option<&str>| Access {
            kubeconfig: kubeconfig.map(str::to_owned),
            context: context.map(str::to_owned),
            namespace: Some("n".to_owned()),
        };
        for (access, paths, expected) in [
            (access(None, None), None, true),
            (access(None, None), Some(""), true),
            (access(None, None), Some("/k"), false),
            (access(None, Some("c")), None, false),
            (access(Some("/k"), None), None, false),
        ] {
            assert_eq!(access.may_be_that_of_a_pod(paths.map(OsStr::new)), expected, "{access:?} {paths:?}");
        }
    }

    #[test]
    fn the_flags_choose_the_file_and_the_context_and_an_error_names_the_flag() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config").to_str().unwrap().to_owned();
        let context =
            |name: &str| json!({ "name": name, "context": { "cluster": "c", "user": "u", "namespace": name } });
        let kubeconfig = json!({
            "current-context": "here", "contexts": [context("here"), context("there"), context("a/b")],
            "clusters": [{ "name": "c", "cluster": { "server": "https://api.example.com:6443" } }],
            "users": [{ "name": "u", "user": { "token": "t" } }],
        });
        std::fs::write(&file, kubeconfig.to_string()).unwrap();
        let missing = format!("{file}-of-another");
        for (kubeconfig, context, expected) in [
            (&file, None, Ok("here")),
            (&file, Some("there"), Ok("there")),
            (&file, Some("a/b"), Err("use lower-case letters, digits and \"-\", or pass --namespace")),
            (&file, Some("nowhere"), Err("`kubectl config get-contexts` lists the available contexts")),
            (&missing, None, Err("set --kubeconfig to the path of a readable kubeconfig file")),
        ] {
            let access =
                Access { kubeconfig: Some(kubeconfig.clone()), context: context.map(str::to_owned), namespace: None };
            let loaded = access.load("status").map(|config| config.default_namespace);
            let hint = |error: anyhow::Error| {
                error.downcast_ref().map_or_else(String::new, |it: &Hinted| it.hint().to_owned())
            };
            assert_eq!(loaded.map_err(hint), expected.map(str::to_owned).map_err(str::to_owned), "{context:?}");
        }
    }
}
