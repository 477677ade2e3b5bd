//! The story with Kubernetes' own components: two kube-controller-managers of two versions, elected by Hustings in place of
//! the API server's own controller. The Lease alone shows who leads, since these processes report nothing.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hustings_client::api::ReadLease;
use hustings_client::model::{CandidateKind, LeaseStage};
use hustings_controlplane::{ElectedComponent, Process};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};

use crate::page;
use crate::show::Show;
use crate::stage::Stage;

const COMPONENT: ElectedComponent = ElectedComponent::KubeControllerManager;
const NAMESPACE: &str = "kube-system";
const NEWER: &str = "1.37";
const OLDER: &str = "1.36";

/// A crash costs the rest of a lease of 15 s, and client-go polls every 2 to 4.4 s.
const LIMIT: Duration = Duration::from_mins(2);

/// Plays all steps.
pub(crate) async fn play(show: &mut Show, page: bool) -> Result<()> {
    show.scene("a control plane that elects native candidates, and the chart with examples/native-values.yaml");
    let mut stage = Stage::set(show, true).await?;
    let outcome = act(show, &mut stage, page).await;
    if outcome.is_err() {
        stage.print_logs();
    }
    outcome
}

async fn act(show: &mut Show, stage: &mut Stage, page: bool) -> Result<()> {
    let newer = stage.plane()?.elected_component(COMPONENT, &[]).await?;
    let older = stage.plane()?.elected_component(COMPONENT, &["--emulated-version=1.36"]).await?;

    show.scene("Hustings takes the place of the API server's election controller");
    let since = Instant::now();
    stage.start_controller("controller-0")?;
    stage.start_controller("controller-1")?;
    stage.wait_logged("this controller elects native candidates", LIMIT).await?;
    show.observed("stand-in", format!("Hustings elects after {}", seconds(since)), None);

    if page {
        page::open(show, stage, "controller-0").await?;
    }

    show.scene("a kube-controller-manager stands");
    let since = Instant::now();
    let newer = start(stage, "newer", newer)?;
    led_by(stage, NEWER).await?;
    show.observed("first election", format!("{NEWER} leads after {}", seconds(since)), None);

    show.scene("one with an older emulation version joins");
    let since = Instant::now();
    let older = start(stage, "older", older)?;
    led_by(stage, OLDER).await?;
    show.observed("an older version joins", format!("{OLDER} leads after {}", seconds(since)), None);

    show.scene("kill -9 of the leader; the other has ended, as it does when it loses its Lease, and starts again");
    ended(&newer).await?;
    newer.start_again()?;
    let since = Instant::now();
    older.kill()?;
    led_by(stage, NEWER).await?;
    show.observed("crash", format!("{NEWER} leads after {}", seconds(since)), Some(since.elapsed()));
    show.table("Kubernetes' own components were elected by their versions");
    if page {
        page::stay(show).await;
    }
    Ok(())
}

fn start(stage: &Stage, name: &str, command: Command) -> Result<Process> {
    stage.plane()?.spawn(&format!("{}-{name}", COMPONENT.lease()), command)
}

/// Waits until the Lease is held by a candidate with this emulation version, which has renewed it.
async fn led_by(stage: &Stage, version: &str) -> Result<()> {
    let leases = Api::<ReadLease>::namespaced(stage.plane()?.admin(), NAMESPACE);
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("coordination.k8s.io", "v1beta1", "LeaseCandidate"));
    let candidates = Api::<DynamicObject>::namespaced_with(stage.plane()?.admin(), NAMESPACE, &kind);
    let leads = async {
        loop {
            let record = leases.get_opt(COMPONENT.lease()).await?.map(|lease| lease.record);
            let record = record.filter(|record| record.stage(Some(CandidateKind::Native)) != LeaseStage::Granted);
            if let Some(holder) = record.and_then(|record| record.holder) {
                let candidate = candidates.get_opt(&holder).await?;
                let emulation =
                    candidate.as_ref().and_then(|candidate| candidate.data["spec"]["emulationVersion"].as_str());
                if emulation.is_some_and(|emulation| emulation.starts_with(version)) {
                    return Ok::<_, anyhow::Error>(());
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LIMIT, leads).await.with_context(|| format!("no replica of {version} leads"))?
}

async fn ended(process: &Process) -> Result<()> {
    let ended = async {
        while process.exit_status()?.is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    };
    tokio::time::timeout(LIMIT, ended).await.context("the former leader does not end")?
}

fn seconds(since: Instant) -> String {
    format!("{:.1} s", since.elapsed().as_secs_f64())
}
