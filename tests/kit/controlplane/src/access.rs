//! Clients and kubeconfig files, for the administrator and for ServiceAccounts with the rights that RBAC grants them.
//!
//! A client belongs to the runtime that made it, so each call makes a new one. The clients never retry, so that a test
//! observes each answer of the server.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context, Result};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Namespace, Pod, ServiceAccount},
};
use kube::{
    Api, Client, Config,
    api::{ObjectMeta, PostParams},
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{certificates::ClientCertificate, forwarder::Forwarder, plane::ControlPlane, tools::Tool};

/// How long kubectl or helm may take.
const TOOL_LIMIT: Duration = Duration::from_mins(2);

impl ControlPlane {
    /// A client of the administrator, for the current runtime.
    pub fn admin(&self) -> Client {
        client(self.config())
    }

    /// The administrator's configuration.
    pub fn config(&self) -> Config {
        self.config_with(self.admin_token(), "default")
    }

    /// The path of the administrator's kubeconfig file.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder().join("admin.kubeconfig")
    }

    /// The path of a kubeconfig file of the administrator with this default namespace.
    pub fn kubeconfig_in(&self, namespace: &str) -> Result<PathBuf> {
        let path = self.folder().join(format!("{namespace}.admin.kubeconfig"));
        self.write_kubeconfig(&path, self.admin_token(), namespace)?;
        Ok(path)
    }

    /// A forwarder to the API server, and the path of a kubeconfig file of the administrator that names it. While the
    /// forwarder is held, the programs with this file get no answers, and all others do.
    pub fn link(&self) -> Result<(Forwarder, PathBuf)> {
        let server = self.url().authority().context("the URL has no address")?.as_str().parse()?;
        let link = Forwarder::to(server)?;
        let path = self.folder().join(format!("{}.kubeconfig", link.address().port()));
        let mut kubeconfig = self.kubeconfig_with(self.admin_token(), "default");
        kubeconfig["clusters"][0]["cluster"]["server"] = json!(format!("https://{}", link.address()));
        fs::write(&path, kubeconfig.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
        Ok((link, path))
    }

    /// A client of a ServiceAccount, for the current runtime.
    pub async fn client_for_service_account(&self, namespace: &str, name: &str) -> Result<Client> {
        Ok(client(self.config_for_service_account(namespace, name).await?))
    }

    /// A ServiceAccount's configuration, with a token that is valid for a day.
    pub async fn config_for_service_account(&self, namespace: &str, name: &str) -> Result<Config> {
        Ok(self.config_with(&self.token(namespace, name).await?, namespace))
    }

    /// The path of a new kubeconfig file of a ServiceAccount, with a token that is valid for a day.
    pub async fn kubeconfig_for_service_account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = self.folder().join(format!("{namespace}.{name}.{number}.kubeconfig"));
        self.write_kubeconfig(&path, &self.token(namespace, name).await?, namespace)?;
        Ok(path)
    }

    /// Creates a Pod that never runs, and returns the path of a kubeconfig file with its token. The token belongs to
    /// the ServiceAccount `name` and is bound to the Pod, like those that a kubelet mounts. So the server knows which
    /// pod sends a request.
    pub async fn kubeconfig_for_pod(&self, namespace: &str, name: &str, pod: &str) -> Result<PathBuf> {
        let wanted = serde_json::from_value(json!({
            "metadata": {"name": pod},
            "spec": {"serviceAccountName": name, "containers": [{"name": "c", "image": "none"}]},
        }))?;
        let created = Api::<Pod>::namespaced(self.admin(), namespace)
            .create(&PostParams::default(), &wanted)
            .await
            .with_context(|| format!("cannot create Pod {namespace}/{pod}"))?;
        let bound = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.to_owned()),
            uid: created.metadata.uid,
        };
        let path = self.folder().join(format!("{namespace}.{pod}.pod.kubeconfig"));
        self.write_kubeconfig(&path, &self.bound_token(namespace, name, Some(bound)).await?, namespace)?;
        Ok(path)
    }

    /// A token of a ServiceAccount, which must exist, valid for a day.
    pub async fn token(&self, namespace: &str, name: &str) -> Result<String> {
        self.bound_token(namespace, name, None).await
    }

    async fn bound_token(
        &self,
        namespace: &str,
        name: &str,
        bound_object_ref: Option<BoundObjectReference>,
    ) -> Result<String> {
        let expiration_seconds = Some(24 * 60 * 60);
        let request = TokenRequest {
            spec: TokenRequestSpec { bound_object_ref, expiration_seconds, ..Default::default() },
            ..Default::default()
        };
        let answer = Api::<ServiceAccount>::namespaced(self.admin(), namespace)
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("cannot get a token of ServiceAccount {namespace}/{name}"))?;
        Ok(answer.status.context("TokenRequest without a status")?.token)
    }

    /// A client certificate of a user in these groups, which the API server accepts for this time.
    pub fn client_certificate(&self, user: &str, groups: &[&str], validity: Duration) -> Result<ClientCertificate> {
        self.authority().client(user, groups, validity)
    }

    /// Creates a namespace with a unique name, so that tests share a control plane without affecting each other.
    pub async fn create_namespace(&self, prefix: &str) -> Result<String> {
        let metadata = ObjectMeta { generate_name: Some(format!("{prefix}-")), ..Default::default() };
        let namespace = Api::<Namespace>::all(self.admin())
            .create(&PostParams::default(), &Namespace { metadata, ..Default::default() })
            .await
            .with_context(|| format!("cannot create a namespace {prefix}-*"))?;
        namespace.metadata.name.context("namespace without a name")
    }

    /// Creates a ServiceAccount. It has no rights until a Role is bound to it.
    pub async fn create_service_account(&self, namespace: &str, name: &str) -> Result<()> {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..Default::default() };
        Api::<ServiceAccount>::namespaced(self.admin(), namespace)
            .create(&PostParams::default(), &ServiceAccount { metadata, ..Default::default() })
            .await
            .with_context(|| format!("cannot create ServiceAccount {namespace}/{name}"))?;
        Ok(())
    }

    /// Runs kubectl as the administrator, whatever its exit status.
    pub async fn kubectl(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Output> {
        self.run_tool(Tool::Kubectl, arguments).await
    }

    /// Runs Helm 4 as the administrator, whatever its exit status. It keeps its files in the folder of this run.
    pub async fn helm(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Output> {
        self.run_tool(Tool::Helm, arguments).await
    }

    /// The path of a tool. Builds the tool if it is missing.
    pub async fn tool(&self, tool: Tool) -> Result<PathBuf> {
        let tools = self.tools().clone();
        tokio::task::spawn_blocking(move || tools.path(tool)).await?
    }

    pub(crate) fn write_kubeconfig(&self, path: &Path, token: &str, namespace: &str) -> Result<()> {
        // Tests that run at the same time may write and read the same file. JSON is YAML.
        let draft = path.with_extension(format!("{:?}", std::thread::current().id()));
        fs::write(&draft, self.kubeconfig_with(token, namespace).to_string())
            .and_then(|()| fs::rename(&draft, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn kubeconfig_with(&self, token: &str, namespace: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "test",
                "cluster": {"server": self.url().to_string(), "certificate-authority": self.folder().join("ca.crt")},
            }],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
            "current-context": "test",
        })
    }

    fn config_with(&self, token: &str, namespace: &str) -> Config {
        let mut config = Config::new(self.url().clone());
        config.root_cert = Some(vec![self.authority().der.clone()]);
        config.auth_info.token = Some(token.to_owned().into());
        namespace.clone_into(&mut config.default_namespace);
        config.default_retry = false;
        config
    }

    /// Runs a command line tool as the administrator, whatever its exit status.
    pub async fn run_tool(&self, tool: Tool, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<Output> {
        let path = self.tool(tool).await?;
        let home = self.folder().join("home");
        let output = Command::new(path)
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", &home)
            .envs(["CACHE", "CONFIG", "DATA"].map(|kind| (format!("HELM_{kind}_HOME"), home.join("helm").join(kind))))
            .env("NO_PROXY", "127.0.0.1")
            .stdin(Stdio::null())
            .process_group(self.process_group())
            .kill_on_drop(true)
            .output();
        tokio::time::timeout(TOOL_LIMIT, output)
            .await
            .with_context(|| format!("{tool:?} did not end within {TOOL_LIMIT:?}"))?
            .with_context(|| format!("cannot run {tool:?}"))
    }
}

fn client(config: Config) -> Client {
    // This fails if another provider is installed already, which is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::try_from(config).expect("the certificate was made by this crate, and the rest is constant")
}
