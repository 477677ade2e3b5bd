//! `kubectl explain` of every field of a candidate.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{JSONSchemaProps, JSONSchemaPropsOrArray};

use super::{Programs, succeed};
use crate::acts::Scene;
use crate::controller::support::eventually;

/// The width to which kubectl wraps a description.
const WIDTH: usize = 76;

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_explains_every_field_in_whole_paragraphs() {
    let scene = Scene::new("kubectl-explain", &[]).await;
    let programs = Programs::new(&scene).await;
    let crd = hustings_client::api::crd();
    let schema = crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
    let mut fields = BTreeMap::new();
    collect("lcand", schema, &mut fields);
    assert!(fields.contains_key("lcand.spec.leaseName") && fields.contains_key("lcand.status.conditions.reason"));
    for (field, description) in fields {
        let printed = eventually("the server publishes the schema", async || {
            let output = programs.kubectl(&scene, &["explain", &field]).await;
            if output.status.success() { Ok(succeed(&output)) } else { Err(output) }
        })
        .await;
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&printed).contains(&words(&description)), "{field}: {printed}");
        // Below a list, kubectl prints the description of its items.
        let (_, shown) = printed.split_once("DESCRIPTION:\n").unwrap();
        let last = shown.lines().position(|line| words(&description).ends_with(line.trim())).unwrap();
        let shown: Vec<_> = shown.lines().take(last + 1).map(str::trim).collect();
        for lines in shown.windows(2) {
            let next = lines[1].split(' ').next().unwrap();
            assert!(lines[0].len() + 1 + next.len() > WIDTH - 4, "{field} has a short line: {printed}");
        }
    }
}

/// The description of each field of `schema`, by its path.
fn collect(path: &str, schema: &JSONSchemaProps, fields: &mut BTreeMap<String, String>) {
    let description = schema.description.clone().unwrap_or_else(|| panic!("{path} has no description"));
    fields.insert(path.to_owned(), description);
    let items = match &schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => items.properties.as_ref(),
        _ => None,
    };
    for (name, property) in schema.properties.iter().chain(items).flatten() {
        collect(&format!("{path}.{name}"), property, fields);
    }
}
