//! Finds the Deployments of the controller, and reads each one's configuration from its flags.

use std::collections::BTreeMap;
use std::ffi::OsString;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Container;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use crate::base::cluster::{api_error, scoped};
use crate::base::pages::Pages;
use crate::controller::{Config, OWN_LEASE};

/// The label of the chart's objects. Their label `app.kubernetes.io/name` is the value `nameOverride`, or the alias of a
/// subchart.
const LABEL: &str = "app.kubernetes.io/part-of=hustings";

/// The chart's name before its version, which may have hyphens too.
const CHART: &str = "hustings-";

/// Reads the configuration of a controller from the arguments and the environment variables of its container. The error
/// is the reason why this binary cannot read it.
pub type ReadConfig = fn(Vec<OsString>, &BTreeMap<String, String>) -> Result<Config, String>;

/// A Deployment of the controller.
#[derive(Debug)]
pub(crate) struct Installation {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The ServiceAccount of its Pods.
    pub(crate) service_account: String,
    pub(crate) replicas: i32,
    pub(crate) available: i32,
    /// The chart's version, from the label `helm.sh/chart`.
    pub(crate) chart: Option<String>,
    /// The tag of the image; `None` if the image is named by its digest.
    pub(crate) image: Option<String>,
    /// The controller's configuration, or the reason why this binary cannot read it.
    pub(crate) config: Result<Config, String>,
}

/// Finds the Deployments of the controller in one namespace, or in all. Where none has the label, as after a tool has
/// overwritten it, reads every Deployment, page by page, until one has been found.
///
/// # Errors
/// Fails if Deployments cannot be listed.
pub(crate) async fn find(
    client: &Client,
    namespace: Option<&str>,
    read_config: ReadConfig,
) -> Result<Vec<Installation>, String> {
    let deployments: Api<Deployment> = scoped(client.clone(), namespace);
    let failed = |error| format!("cannot list Deployments: {:#}", api_error(error));
    let labelled = Pages::new(deployments.clone(), ListParams::default().labels(LABEL)).all().await.map_err(failed)?;
    let mut found: Vec<_> = labelled.into_iter().filter_map(|found| read(found, read_config)).collect();
    let mut pages = Pages::new(deployments, ListParams::default());
    while found.is_empty()
        && let Some(page) = pages.next().await.map_err(failed)?
    {
        found.extend(page.into_iter().filter(is_named_hustings).filter_map(|found| read(found, read_config)));
    }
    Ok(found)
}

/// Whether the chart's name or the image's shows that a Deployment without the label is Hustings'. Other programs also
/// have a command `controller`.
fn is_named_hustings(deployment: &Deployment) -> bool {
    let chart = deployment.labels().get("helm.sh/chart").is_some_and(|chart| chart.starts_with(CHART));
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let mut images = pod.into_iter().flat_map(|pod| &pod.containers).filter_map(|container| container.image.as_deref());
    chart
        || images
            .any(|image| image.rsplit('/').next().is_some_and(|name| name.split([':', '@']).next() == Some("hustings")))
}

impl Installation {
    /// The namespace and the name of the controllers' own Lease; `None` if the controllers elect no leader. Flags that
    /// this binary cannot read count as the defaults.
    pub(crate) fn own_lease(&self) -> Option<(String, String)> {
        let Ok(config) = &self.config else { return Some((self.namespace.clone(), OWN_LEASE.to_owned())) };
        let lease = config.own_lease.as_ref()?;
        Some((lease.namespace.clone().unwrap_or_else(|| self.namespace.clone()), lease.name.clone()))
    }
}

/// Reads a Deployment; `None` if it does not run the controller.
fn read(deployment: Deployment, read_config: ReadConfig) -> Option<Installation> {
    let namespace = deployment.namespace()?;
    let label = |name: &str| deployment.labels().get(name).cloned();
    let chart = label("helm.sh/chart").and_then(|chart| Some(chart.strip_prefix(CHART)?.to_owned()));
    let name = deployment.name_any();
    let spec = deployment.spec?;
    let pod = spec.template.spec?;
    let is_controller =
        |container: &&Container| container.args.iter().flatten().next().is_some_and(|word| word == "controller");
    let container = pod.containers.iter().find(is_controller)?;
    let image = container.image.as_deref().filter(|image| !image.contains('@'));
    let image = image.and_then(|image| image.rsplit('/').next()?.split_once(':')).map(|(_, tag)| tag.to_owned());
    let config = configuration(container, &namespace, read_config);
    let available = deployment.status.and_then(|status| status.available_replicas).unwrap_or(0);
    Some(Installation {
        service_account: pod.service_account_name.unwrap_or_else(|| "default".to_owned()),
        replicas: spec.replicas.unwrap_or(1),
        available,
        chart,
        image,
        config,
        namespace,
        name,
    })
}

/// Reads the container's flags with this binary. Another version may have other flags.
fn configuration(container: &Container, namespace: &str, read_config: ReadConfig) -> Result<Config, String> {
    let variables = container.env.iter().flatten().filter_map(|variable| {
        let path = variable
            .value_from
            .as_ref()
            .and_then(|source| source.field_ref.as_ref())
            .map(|field| field.field_path.as_str());
        let value = match path {
            Some("metadata.namespace") => Some(namespace.to_owned()),
            _ => variable.value.clone(),
        };
        Some((variable.name.clone(), value?))
    });
    let variables: BTreeMap<_, _> = variables.collect();
    let expand = |argument: &String| {
        variables.iter().fold(argument.clone(), |text, (name, value)| text.replace(&format!("$({name})"), value))
    };
    let arguments = container.args.iter().flatten().map(expand).map(OsString::from);
    read_config(arguments.collect(), &variables)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::cluster::testing::{cluster, list};
    use crate::cli::controller_config;
    use crate::controller::NativeMode;

    fn deployment(args: &[&str]) -> Deployment {
        let env = json!([{"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}]);
        let container =
            json!({"name": "controller", "image": "r.example:5000/p/hustings:0.2.0", "args": args, "env": env});
        let labels = json!({"helm.sh/chart": "hustings-0.3.0-rc.1"});
        serde_json::from_value(json!({
            "metadata": {"name": "h", "namespace": "system", "labels": labels},
            "spec": {"replicas": 2, "selector": {}, "template": {"spec": {"containers": [container], "serviceAccountName": "a"}}},
            "status": {"availableReplicas": 1},
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn without_the_label_a_deployment_is_found_by_its_chart_or_image() {
        let named = |name: &str, chart: &str, image: &str, command: &str| {
            let mut deployment = deployment(&[command]);
            deployment.metadata.name = Some(name.to_owned());
            deployment.metadata.labels = Some([("helm.sh/chart".to_owned(), chart.to_owned())].into());
            let pod = deployment.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
            pod.containers[0].image = Some(image.to_owned());
            serde_json::to_value(deployment).unwrap()
        };
        let pages = [
            [named("other", "other-1.0.0", "r.example/other:1", "controller")],
            [named("by-chart", "hustings-0.3.0", "r.example/mirror:1", "controller")],
            [named("by-image", "parent-1.0.0", "r.example:5000/p/hustings:1", "controller")],
            [named("wrapper", "hustings-0.3.0", "r.example/hustings:1", "run")],
        ];
        for (last, expected) in [(1, None), (2, Some("by-chart")), (3, Some("by-image")), (4, Some("by-image"))] {
            let pages = pages.clone();
            let (cluster, _) = cluster(move |sent| {
                if sent.path.contains("labelSelector") {
                    return Some(list(&[]));
                }
                // The last pages come first, each but the last with the token of the next one.
                let page = sent.path.split_once("continue=").map_or(last, |(_, token)| token[..1].parse().unwrap());
                let (code, mut answer) = list(&pages[page - 1]);
                answer["metadata"]["continue"] = json!(if page > 1 { (page - 1).to_string() } else { String::new() });
                Some((code, answer))
            });
            let found = find(&cluster.leases, None, controller_config).await.unwrap();
            assert_eq!(found.first().map(|found| found.name.as_str()), expected, "{last}");
        }
    }

    #[test]
    fn configuration_is_read_from_the_flags_of_the_container() {
        let args = ["controller", "--namespace=$(POD_NAMESPACE)", "--native", "--leader-elect-resource-name=own"];
        let found = read(deployment(&args), controller_config).unwrap();
        let config = found.config.unwrap();
        assert_eq!((config.native, config.own_lease.unwrap().name), (NativeMode::Elect, "own".to_owned()));
        assert_eq!((found.chart.as_deref(), found.image.as_deref()), (Some("0.3.0-rc.1"), Some("0.2.0")));
        assert_eq!((found.service_account.as_str(), found.replicas, found.available), ("a", 2, 1));
    }

    #[test]
    fn configuration_is_read_from_the_environment_of_the_container() {
        let variables = [
            ("HUSTINGS_NATIVE", "true", NativeMode::Elect, "own"),
            ("HUSTINGS_NATIVE", "false", NativeMode::Off, "own"),
        ];
        for (name, value, native, own) in variables {
            let mut deployment = deployment(&["controller", "--leader-elect-resource-name=own"]);
            let pod = deployment.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
            let own_name = json!({"name": "HUSTINGS_LEADER_ELECT_RESOURCE_NAME", "value": "a flag is stronger"});
            let variables = json!([{"name": name, "value": value}, own_name]);
            pod.containers[0].env = serde_json::from_value(variables).unwrap();
            let config = read(deployment, controller_config).unwrap().config.unwrap();
            assert_eq!((config.native, config.own_lease.unwrap().name.as_str()), (native, own), "{value}");
        }
    }

    #[test]
    fn a_version_is_read_from_a_tag_and_not_from_a_digest() {
        for (image, expected) in [
            ("hustings:0.2.0", Some("0.2.0")),
            ("r.example:5000/p/hustings:0.2.0", Some("0.2.0")),
            ("r.example:5000/p/hustings", None),
            ("r.example/hustings@sha256:0123", None),
            ("r.example/hustings:0.2.0@sha256:0123", None),
        ] {
            let mut deployment = deployment(&["controller"]);
            let pod = deployment.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
            pod.containers[0].image = Some(image.to_owned());
            assert_eq!(read(deployment, controller_config).unwrap().image.as_deref(), expected, "{image}");
        }
    }

    #[test]
    fn fields_that_kubernetes_defaults_have_their_defaults() {
        let mut deployment = deployment(&["controller"]);
        deployment.status = None;
        let spec = deployment.spec.as_mut().unwrap();
        (spec.replicas, spec.template.spec.as_mut().unwrap().service_account_name) = (None, None);
        let found = read(deployment, controller_config).unwrap();
        assert_eq!((found.service_account.as_str(), found.replicas, found.available), ("default", 1, 0));
    }

    #[test]
    fn unknown_flag_is_named_in_the_error() {
        let found = read(deployment(&["controller", "--from-the-future"]), controller_config).unwrap();
        assert_eq!(found.config.unwrap_err(), "error: unexpected argument '--from-the-future' found");
    }

    #[test]
    fn deployment_of_another_program_is_ignored() {
        for args in [&["run", "--lease=a"][..], &["run", "--lease=a", "--", "own", "controller"]] {
            assert!(read(deployment(args), controller_config).is_none(), "{args:?}");
        }
    }
}
