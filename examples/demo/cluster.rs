//! An existing cluster, for `--kubeconfig`.
//!
//! The rule that must hold: the demo leaves the cluster as it found it. Everything is in a namespace of its own, which it
//! deletes at the end. It installs the CRD only if there is none, and then deletes that, too.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use hustings_client::api::crd;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;

use crate::show::Show;
use crate::stage::OWN_LEASE;

/// How long an installed controller may take to renew its own Lease. It does so every two seconds.
const RENEWAL_LIMIT: Duration = Duration::from_secs(10);

/// How long each request of the cleaning may take.
const CLEANING_LIMIT: Duration = Duration::from_secs(10);

/// The cluster of a kubeconfig file.
pub(crate) struct Cluster {
    kubeconfig: PathBuf,
    client: Client,
    /// The server and the context.
    name: String,
    /// The namespace of the demo, once it exists.
    namespace: RefCell<Option<String>>,
    has_installed_crd: Cell<bool>,
}

impl Cluster {
    /// The cluster of the current context of this file.
    pub(crate) async fn connect(file: &str) -> Result<Self> {
        let kubeconfig = Path::new(file).canonicalize().with_context(|| format!("cannot find {file}"))?;
        let read = Kubeconfig::read_from(&kubeconfig).with_context(|| format!("cannot read {file}"))?;
        let context = read.current_context.clone().unwrap_or_default();
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
        let config = config.with_context(|| format!("cannot use the current context of {file}"))?;
        let name = format!("{} (context {context} of {file})", config.cluster_url);
        let client = Client::try_from(config)?;
        Ok(Self { kubeconfig, client, name, namespace: RefCell::default(), has_installed_crd: Cell::new(false) })
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Creates the namespace, and the CRD if it is missing. Returns the name of the namespace.
    pub(crate) async fn prepare(&self, show: &Show) -> Result<String> {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client());
        let crd = crd();
        if crds.get_opt(&crd.name_any()).await.context("cannot read the CRD")?.is_some() {
            show.event("cluster", "has the CRD of LeaseCandidates already");
        } else {
            // Before the request, whose answer may be lost.
            self.has_installed_crd.set(true);
            let created = crds.create(&PostParams::default(), &crd).await;
            if matches!(created, Err(kube::Error::Api(_))) {
                // Refused, perhaps because another client was faster. That CRD is not the demo's.
                self.has_installed_crd.set(false);
            }
            created.context("cannot install the CRD")?;
            show.event("cluster", "gets the CRD of LeaseCandidates until the end of the demo");
        }
        let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "generateName": "hustings-demo-" } }))?;
        let namespaces: Api<Namespace> = Api::all(self.client());
        let created = namespaces.create(&PostParams::default(), &namespace).await;
        let name = created.context("cannot create a namespace")?.name_any();
        self.namespace.replace(Some(name.clone()));
        show.event("cluster", &format!("gets the namespace {name} until the end of the demo"));
        Ok(name)
    }

    /// The installed controller that elects now: one that renews its own Lease.
    pub(crate) async fn installed_controller(&self, show: &Show) -> Result<Option<String>> {
        show.event("cluster", &format!("is {}", self.name));
        let leases: Api<Lease> = Api::all(self.client());
        let own = ListParams::default().fields(&format!("metadata.name={OWN_LEASE}"));
        let renewals = async || {
            let listed = leases.list(&own).await.with_context(|| format!("cannot list Leases of {}", self.name))?;
            let renewals = listed.items.into_iter().filter_map(|lease| {
                let spec = lease.spec.as_ref()?;
                let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
                Some((lease.uid(), holder, spec.renew_time.clone()))
            });
            Ok::<Vec<_>, anyhow::Error>(renewals.collect())
        };
        let before = renewals().await?;
        if before.is_empty() {
            return Ok(None);
        }
        let renewed = async {
            loop {
                tokio::time::sleep(Duration::from_millis(500)).await;
                if let Some((_, holder, _)) = renewals().await?.into_iter().find(|now| !before.contains(now)) {
                    return Ok(Some(holder));
                }
            }
        };
        tokio::time::timeout(RENEWAL_LIMIT, renewed).await.unwrap_or(Ok(None))
    }

    /// Deletes what the demo created.
    pub(crate) async fn clean(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client());
        if let Some(name) = self.namespace.take() {
            delete("namespace", namespaces, &name).await;
        }
        if self.has_installed_crd.take() {
            let crds: Api<CustomResourceDefinition> = Api::all(self.client());
            delete("crd", crds, &crd().name_any()).await;
        }
    }
}

async fn delete<K>(kind: &str, objects: Api<K>, name: &str)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let parameters = DeleteParams::default();
    let deleted = tokio::time::timeout(CLEANING_LIMIT, objects.delete(name, &parameters)).await;
    let problem = match deleted {
        Ok(Ok(_)) => {
            eprintln!("deleted the {kind} {name}");
            return;
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {CLEANING_LIMIT:?}"),
    };
    eprintln!("error: cannot delete the {kind} {name}: {problem}\nhint: run `kubectl delete {kind} {name}`");
}
