//! Kinds beside those that an API server knows by itself.

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};

use crate::eventually;

/// Has the server know this CustomResourceDefinition, and returns when it answers from its cache.
///
/// One that is called Established is not that far: until that cache has been filled, what would be answered from it is
/// refused as 429.
pub async fn serve(client: &Client, crd: &CustomResourceDefinition) -> Result<()> {
    let name = crd.name_any();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("tests").force();
    crds.patch(&name, &params, &Patch::Apply(crd)).await.with_context(|| format!("cannot install {name}"))?;
    let version = crd.spec.versions.first().with_context(|| format!("{name} has no version"))?;
    let kind = GroupVersionKind::gvk(&crd.spec.group, &version.name, &crd.spec.names.kind);
    let kind = ApiResource::from_gvk_with_plural(&kind, &crd.spec.names.plural);
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    // Of any age, and all of them: nothing else than the cache may answer that.
    let answered = eventually(async || objects.list(&ListParams::default().match_any()).await);
    answered.await.with_context(|| format!("{name} is not served")).map(drop)
}
