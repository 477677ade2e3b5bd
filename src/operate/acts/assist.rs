//! Assisted Leases: which acts are refused, and what the administrator should know about one.

use hustings_core::assist::AssistOptions;
use hustings_core::model::LeaseRecord;

use super::config::LeaseAct;
use super::report::ActReport;
use super::requests::refused;
use super::scene::ActScene;
use crate::base::cluster::Cluster;
use crate::base::hint::Hinted;
use crate::controller::Config;
use crate::operate::assisted::{AssistanceState, Unassisted};
use crate::operate::check::Installation;

/// Checks that a controller would assist the holder of this Lease.
pub(super) fn check_assist(scene: &ActScene) -> Result<(), Hinted> {
    match Unassisted::of(scene.key(), &scene.lease.record, &scene.candidates, &scene.own_leases) {
        Some(why) => Err(refused(why.to_string(), why.hint())),
        None => Ok(()),
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
/// `found` are the installations of the controller, if the caller may search for them.
pub(super) async fn add_notes(
    cluster: &Cluster,
    act: &LeaseAct,
    found: Option<&[Installation]>,
    report: &mut ActReport,
) {
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
        LeaseAct::Assist(options) => without_controller(cluster, options, found).await,
        LeaseAct::Unassist => listed(cluster, &report.lease, found),
        _ => None,
    };
    report.warnings.extend(warning);
}

/// Why no controller assists a Lease of this namespace, as far as the caller can see the controllers.
async fn without_controller(
    cluster: &Cluster,
    options: &AssistOptions,
    found: Option<&[Installation]>,
) -> Option<String> {
    if let Err(missing) = cluster.knows_candidates().await {
        return Some(format!("no controller assists before it can elect: {missing} ({})", missing.hint()));
    }
    let found = found?;
    if found.is_empty() {
        return Some(
            "no Deployment of a controller was found: only a controller with --evidence-pods assists".to_owned(),
        );
    }
    let namespace = &*cluster.namespace;
    let of_pods = options.namespace_of_pods(namespace);
    let assists = |config: &Config| config.watches(namespace) && config.uses_evidence_in(of_pods);
    let may_assist = found.iter().any(|installation| installation.config.as_ref().map_or(true, assists));
    (!may_assist).then(|| {
        format!(
            "no controller that elects in namespace {namespace} uses evidence of Pods in namespace {of_pods}: set the \
             chart's value evidence.pods, and add both to watchNamespaces unless that is empty"
        )
    })
}

/// Which controller writes the annotation again, as far as the caller can see the controllers.
fn listed(cluster: &Cluster, lease: &str, found: Option<&[Installation]>) -> Option<String> {
    let lists = |config: &Config| {
        config.assist.iter().any(|listed| listed.namespace == cluster.namespace && listed.name == lease)
    };
    let controller = found?.iter().find(|installation| installation.config.as_ref().is_ok_and(lists))?;
    Some(format!(
        "the controllers of Deployment {} in namespace {} assist it again: remove it from the chart's value assist.leases",
        controller.name, controller.namespace
    ))
}
