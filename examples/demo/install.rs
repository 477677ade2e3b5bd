//! What an administrator installs: the manifests of `deploy`, or the chart with other values.
//!
//! The manifests need no Helm, which would take a minute to build.

use anyhow::{Context, Result, ensure};
use hustings_controlplane::ControlPlane;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Client, ResourceExt};

use crate::stage::SYSTEM;

/// The chart with its default values.
const MANIFESTS: &str = include_str!("../../deploy/install.yaml");

/// Creates the objects of `deploy/install.yaml`, in the order in which they are there.
pub(crate) async fn manifests(client: &Client) -> Result<()> {
    for object in serde_saphyr::from_multiple::<DynamicObject>(MANIFESTS).context("cannot read deploy/install.yaml")? {
        let name = object.name_any();
        let types = object.types.as_ref().with_context(|| format!("{name} has no kind"))?;
        let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
            None => Api::all_with(client.clone(), &kind),
        };
        let created = api.create(&PostParams::default(), &object).await;
        created.with_context(|| format!("cannot create {} {name}", kind.kind))?;
    }
    Ok(())
}

/// The chart with `examples/native-values.yaml`.
pub(crate) async fn chart_with_native_values(plane: &ControlPlane) -> Result<()> {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/hustings");
    let values = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/native-values.yaml");
    let arguments = ["install", "hustings", chart, "--namespace", SYSTEM, "--create-namespace", "--values", values];
    let output = plane.helm(arguments).await?;
    ensure!(output.status.success(), "helm install failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
