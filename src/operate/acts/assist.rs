//! Assisted Leases: which acts are refused, and what the administrator should know about one.

use hustings_core::election::NODE_LEASES;
use hustings_core::model::LeaseRecord;

use super::config::LeaseAct;
use super::report::ActReport;
use super::requests::refused;
use super::scene::ActScene;
use crate::base::cluster::Cluster;
use crate::base::hint::Hinted;
use crate::controller::{Config, OWN_LEASE};
use crate::operate::assisted::AssistanceState;
use crate::operate::check::{ReadConfig, find_installations};

/// Checks that a controller would assist the holder of this Lease.
pub(super) fn check_assist(scene: &ActScene) -> Result<(), Hinted> {
    let metadata = &scene.lease.metadata;
    if metadata.namespace.as_deref() == Some(NODE_LEASES) {
        return Err(refused(
            format!("the Leases in {NODE_LEASES} are heartbeats of nodes, not locks"),
            "`hustings survey` lists the locks of the cluster",
        ));
    }
    if scene.is_direct() && metadata.name.as_deref() == Some(OWN_LEASE) {
        return Err(refused(
            "this is the Lease of the controllers themselves",
            "`hustings survey` lists the locks of the cluster",
        ));
    }
    match &*scene.candidates {
        [] => Ok(()),
        [first, ..] => Err(refused(
            format!(
                "the Lease has candidates, such as {}, so a controller elects its holder and needs no assistance",
                first.record.name
            ),
            "with the chart's value evidence.pods, the death of a holder with a candidate is proven, too",
        )),
    }
}

/// Checks that there is something to end.
pub(super) fn check_unassist(record: &LeaseRecord) -> Result<(), Hinted> {
    match record.acts.assist {
        Some(_) => Ok(()),
        None => Err(refused("the Lease is not assisted", "`hustings status` shows the Leases that are")),
    }
}

/// Completes the report of the act: what is known of the holder, and what keeps the act from taking effect.
pub(super) async fn add_notes(cluster: &Cluster, act: &LeaseAct, read_config: ReadConfig, report: &mut ActReport) {
    if !matches!(act, LeaseAct::Assist(_) | LeaseAct::Unassist) {
        return;
    }
    if let Some(assistance) = &mut report.assist {
        assistance.complete(cluster).await;
        let reason = &assistance.reason;
        report.warnings.extend(match assistance.state {
            AssistanceState::Identified | AssistanceState::NoHolder | AssistanceState::NoEffect => None,
            AssistanceState::Ambiguous | AssistanceState::Unidentified => {
                Some(format!("a crash of this holder still costs the rest of its lease: {reason}"))
            }
            AssistanceState::Unknown => {
                Some(format!("whether a controller can prove the death of this holder is unknown: {reason}"))
            }
        });
    }
    let warning = match act {
        LeaseAct::Assist(_) => without_controller(cluster, read_config).await,
        _ => listed(cluster, &report.lease, read_config).await,
    };
    report.warnings.extend(warning);
}

/// Why no controller assists in this namespace, as far as the caller can see the controllers.
async fn without_controller(cluster: &Cluster, read_config: ReadConfig) -> Option<String> {
    if let Err(missing) = cluster.knows_candidates().await {
        return Some(format!("no controller assists before it can elect: {missing} ({})", missing.hint()));
    }
    let found = find_installations(&cluster.leases, None, read_config).await.ok()?;
    if found.is_empty() {
        return Some(
            "no Deployment of a controller was found: only a controller with --evidence-pods assists".to_owned(),
        );
    }
    let may_assist = found.iter().any(|installation| match &installation.config {
        Ok(config) => {
            let namespaces = &config.watch_namespaces;
            config.election.evidence.pods && (namespaces.is_empty() || namespaces.contains(&cluster.namespace))
        }
        Err(_) => true,
    });
    let namespace = &cluster.namespace;
    (!may_assist).then(|| {
        format!("no controller that elects in namespace {namespace} uses evidence: set the chart's value evidence.pods")
    })
}

/// Which controller writes the annotation again, as far as the caller can see the controllers.
async fn listed(cluster: &Cluster, lease: &str, read_config: ReadConfig) -> Option<String> {
    let found = find_installations(&cluster.leases, None, read_config).await.ok()?;
    let lists = |config: &Config| {
        config.assist.iter().any(|listed| listed.namespace == cluster.namespace && listed.name == lease)
    };
    let controller = found.iter().find(|installation| installation.config.as_ref().is_ok_and(lists))?;
    Some(format!(
        "the controllers of Deployment {} in namespace {} assist it again: remove it from the chart's value assist.leases",
        controller.name, controller.namespace
    ))
}
