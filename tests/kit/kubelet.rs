//! What a kubelet does with a container: takes its environment variables from the fields of its pod, and expands them
//! in its arguments.

use std::collections::BTreeMap;

use hustings_controlplane::ControlPlane;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::{Api, ResourceExt as _};

/// A pod of the Deployment `deployment`, with the name `name`. The pod is not created yet.
pub(crate) async fn pod_of(plane: &ControlPlane, namespace: &str, deployment: &str, name: &str) -> Pod {
    let deployment = Api::<Deployment>::namespaced(plane.admin(), namespace).get(deployment).await.unwrap();
    let template = deployment.spec.unwrap().template;
    let mut pod = Pod { metadata: template.metadata.unwrap_or_default(), spec: template.spec, ..Pod::default() };
    pod.metadata.namespace = Some(namespace.to_owned());
    pod.metadata.name = Some(name.to_owned());
    pod
}

/// The environment variables of a container of this pod.
pub(crate) fn environment(container: &Container, pod: &Pod) -> BTreeMap<String, String> {
    let field = |path: &str| match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => pod.namespace().unwrap(),
        "metadata.uid" => pod.uid().unwrap(),
        path => {
            let label = path.strip_prefix("metadata.labels['").and_then(|label| label.strip_suffix("']"));
            pod.labels()[label.unwrap_or_else(|| panic!("{path} is not known here"))].clone()
        }
    };
    let variables = container.env.iter().flatten();
    let variables = variables.map(|variable| {
        let source = variable.value_from.as_ref().and_then(|source| source.field_ref.as_ref());
        let value = source.map_or_else(|| variable.value.clone().unwrap(), |source| field(&source.field_path));
        (variable.name.clone(), value)
    });
    variables.collect()
}

/// An argument, with the variables in it expanded.
pub(crate) fn expand(argument: &str, environment: &BTreeMap<String, String>) -> String {
    let name = |text: String, (name, value): (&String, &String)| text.replace(&format!("$({name})"), value);
    environment.iter().fold(argument.to_owned(), name)
}
