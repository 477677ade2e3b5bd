//! Kinds that a CustomResourceDefinition adds to an API server.

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};

use crate::eventually;

/// Creates this CustomResourceDefinition, and waits until the server answers from its cache.
///
/// The condition Established is not enough: until the cache is filled, the server answers requests that need it with
/// 429.
pub async fn serve(client: &Client, crd: &CustomResourceDefinition) -> Result<()> {
    let name = crd.name_any();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("tests").force();
    crds.patch(&name, &params, &Patch::Apply(crd)).await.with_context(|| format!("cannot install {name}"))?;
    let version = crd.spec.versions.first().with_context(|| format!("{name} has no version"))?;
    let kind = GroupVersionKind::gvk(&crd.spec.group, &version.name, &crd.spec.names.kind);
    let kind = ApiResource::from_gvk_with_plural(&kind, &crd.spec.names.plural);
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    // Only the cache answers a list of any age and without a limit.
    let answered = eventually(async || objects.list(&ListParams::default().match_any()).await);
    answered.await.with_context(|| format!("{name} is not served")).map(drop)
}
