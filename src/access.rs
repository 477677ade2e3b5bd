//! Finds the API server and the namespace of a command.

use std::ffi::OsStr;

use anyhow::Context as _;
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::hint::Hinted;

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
    /// Loads the configuration of a client.
    ///
    /// # Errors
    /// Fails with a hint if the configuration cannot be loaded.
    pub async fn load(&self) -> anyhow::Result<Config> {
        let mut config =
            self.read().await.context(Hinted::new("cannot load the cluster configuration", self.hint()))?;
        drop_exempt_proxy(&mut config, |name| std::env::var(name).ok());
        Ok(config)
    }

    async fn read(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        if let Some(path) = &self.kubeconfig {
            return Ok(Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?);
        }
        if self.may_be_that_of_a_pod(std::env::var_os("KUBECONFIG").as_deref())
            && let Ok(config) = Config::incluster()
        {
            return Ok(config);
        }
        Ok(Config::from_kubeconfig(&options).await?)
    }

    /// Whether the user asks for no kubeconfig. In a pod, the command then uses the pod's ServiceAccount.
    fn may_be_that_of_a_pod(&self, kubeconfig_paths: Option<&OsStr>) -> bool {
        self.kubeconfig.is_none() && self.context.is_none() && kubeconfig_paths.is_none_or(OsStr::is_empty)
    }

    const fn hint(&self) -> &'static str {
        match (&self.kubeconfig, &self.context) {
            (_, Some(_)) => "`kubectl config get-contexts` lists the available contexts",
            (Some(_), None) => "set --kubeconfig to the path of a readable kubeconfig file",
            (None, None) => "pass --kubeconfig, set KUBECONFIG, or run in a pod with a service account",
        }
    }
}

/// Drops a proxy from the environment if `NO_PROXY` exempts the API server. kube itself compares `NO_PROXY` with the
/// address of the proxy. As with kubectl, `NO_PROXY` does not apply to `proxy-url` of the kubeconfig.
fn drop_exempt_proxy(config: &mut Config, variable: impl Fn(&str) -> Option<String>) {
    let first_of = |names: [&str; 2]| names.into_iter().filter_map(&variable).find(|value| !value.is_empty());
    let Some(proxy) = first_of(["HTTPS_PROXY", "https_proxy"]) else { return };
    let exempt = first_of(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let matcher = Matcher::builder().all("http://proxy").no(exempt).build();
    if config.proxy_url == proxy.parse().ok() && matcher.intercept(&config.cluster_url).is_none() {
        config.proxy_url = None;
    }
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
    fn no_proxy_exempts_the_server_only_from_the_proxy_of_the_environment() {
        let of_environment = "http://proxy.example:3128";
        for (no_proxy, proxy_url, is_kept) in [
            ("", of_environment, true),
            ("other.example", of_environment, true),
            ("proxy.example", of_environment, true),
            ("example.com", of_environment, false),
            (".example.com", of_environment, false),
            ("*", of_environment, false),
            ("*", "http://bastion.example:8888", true),
        ] {
            let mut config = Config::new("https://api.example.com:6443".parse().unwrap());
            config.proxy_url = Some(proxy_url.parse().unwrap());
            drop_exempt_proxy(&mut config, |name| match name {
                "https_proxy" => Some(of_environment.to_owned()),
                "NO_PROXY" => Some(no_proxy.to_owned()),
                _ => None,
            });
            assert_eq!(config.proxy_url.is_some(), is_kept, "NO_PROXY={no_proxy} with {proxy_url}");
        }
    }

    #[test]
    fn a_variable_in_capitals_precedes_and_an_empty_one_does_not_count() {
        let (proxy, other) = ("http://proxy.example:3128", "http://other.example:1");
        for (variables, is_kept) in [
            (&[("HTTPS_PROXY", proxy), ("https_proxy", other), ("NO_PROXY", "*")][..], false),
            (&[("HTTPS_PROXY", other), ("https_proxy", proxy), ("NO_PROXY", "*")], true),
            (&[("HTTPS_PROXY", ""), ("https_proxy", proxy), ("no_proxy", "*")], false),
            (&[("https_proxy", proxy), ("NO_PROXY", "other.example"), ("no_proxy", "*")], true),
            (&[("https_proxy", proxy), ("NO_PROXY", ""), ("no_proxy", "*")], false),
            (&[("https_proxy", proxy)], true),
            (&[("NO_PROXY", "*")], true),
        ] {
            let mut config = Config::new("https://api.example.com:6443".parse().unwrap());
            config.proxy_url = Some(proxy.parse().unwrap());
            let value =
                |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            drop_exempt_proxy(&mut config, value);
            assert_eq!(config.proxy_url.is_some(), is_kept, "{variables:?}");
        }
    }

    #[tokio::test]
    async fn the_flags_choose_the_file_and_the_context_and_an_error_names_the_flag() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config").to_str().unwrap().to_owned();
        let context = |name: &str| json!({ "name": name, "context": { "cluster": "c", "namespace": name } });
        let kubeconfig = json!({
            "current-context": "here", "contexts": [context("here"), context("there")],
            "clusters": [{ "name": "c", "cluster": { "server": "https://api.example.com:6443" } }],
        });
        std::fs::write(&file, kubeconfig.to_string()).unwrap();
        let missing = format!("{file}-of-another");
        for (kubeconfig, context, expected) in [
            (&file, None, Ok("here")),
            (&file, Some("there"), Ok("there")),
            (&file, Some("nowhere"), Err("`kubectl config get-contexts` lists the available contexts")),
            (&missing, None, Err("set --kubeconfig to the path of a readable kubeconfig file")),
        ] {
            let access =
                Access { kubeconfig: Some(kubeconfig.clone()), context: context.map(str::to_owned), namespace: None };
            let loaded = access.load().await.map(|config| config.default_namespace);
            let hint = |error: anyhow::Error| {
                error.downcast_ref().map_or_else(String::new, |it: &Hinted| it.hint().to_owned())
            };
            assert_eq!(loaded.map_err(hint), expected.map(str::to_owned).map_err(str::to_owned), "{context:?}");
        }
    }
}
