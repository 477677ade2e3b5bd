//! `hustings pause`, `resume`, `transfer`, `pin`, `unpin`, `exclude`, `include`, `assist` and `unassist`: the acts of
//! administrators.
//!
//! Each command writes annotations on the version that it read, and the controller carries out the act. These rules
//! hold:
//!
//! - A command writes nothing that the controller would refuse. It runs the controller's own decision first
//!   (`src/predict/forecast.rs`).
//! - A command never overwrites an act that it has not read. If another administrator was faster, the command writes
//!   nothing and reports that administrator's act.
//! - Every wait has a bound.

mod assist;
mod candidates;
mod config;
mod leases;
mod outcome;
mod plan;
mod report;
mod requests;
mod scene;

use std::process::ExitCode;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;
use tokio_util::sync::CancellationToken;

pub use self::config::{Act, ActExpiry, Config, LeaseAct, Targets};
use self::report::ActReport;
use self::requests::REQUEST_TIMEOUT;
use crate::base::access::Access;
use crate::base::cluster::Cluster;
use crate::base::hint::Hinted;
use crate::base::signals;
use crate::base::terminal::print;
use crate::operate::check::{ReadConfig, find_installations};

/// The exit code if the act was written but did not take effect within the wait.
const NOT_HAPPENED: u8 = 4;

/// The length to which a user's name is cut, in characters.
const LONGEST_USER: usize = 128;

/// Carries out the act. The exit code is 4 if the act was written but did not take effect within the wait.
/// `read_config` reads the flags of the controllers.
///
/// # Errors
/// Fails if a request fails, or with the exit code 3 if the act makes no sense now.
pub async fn run(access: &Access, config: Config, read_config: ReadConfig) -> anyhow::Result<ExitCode> {
    let stop = signals::stop_on_signals()?;
    let cluster = Cluster::connect(access, "act").await?;
    let mut reports = Vec::new();
    let done = carry_out(&cluster, &config, read_config, &stop, &mut reports).await;
    // An error or a signal in the middle does not undo what was written before.
    for report in &reports {
        print(&report.text(config.output)?)?;
    }
    done?;
    Ok(exit_code(&reports))
}

/// Carries out the act, unless `stop` is cancelled. Adds a report for each object to `reports`, also before an error.
async fn carry_out(
    cluster: &Cluster,
    config: &Config,
    read_config: ReadConfig,
    stop: &CancellationToken,
    reports: &mut Vec<ActReport>,
) -> anyhow::Result<()> {
    let act = Box::pin(async {
        let user = user(cluster).await;
        let user = user.as_deref();
        match &config.act {
            Act::Lease { lease, act } => {
                let found = match act {
                    LeaseAct::Pause(_) | LeaseAct::Assist(_) | LeaseAct::Unassist => {
                        let found = find_installations(&cluster.leases, None, read_config);
                        tokio::time::timeout(REQUEST_TIMEOUT, found).await.ok().and_then(Result::ok)
                    }
                    _ => None,
                };
                let known = found.as_deref().unwrap_or_default();
                Box::pin(leases::carry_out(cluster, lease, act, config, user, known, reports)).await?;
                if let Some(report) = reports.last_mut() {
                    assist::add_notes(cluster, act, found.as_deref(), report).await;
                }
                Ok(())
            }
            Act::Candidates { targets, end } => {
                candidates::carry_out(cluster, targets, *end, config, user, reports).await
            }
        }
    });
    tokio::select! {
        biased;
        done = act => done,
        () = stop.cancelled() => Err(Hinted::new(
            "a signal stopped the command before its end",
            "what it has printed is written, and one more write may be; `hustings status LEASE` shows the acts in force",
        )
        .into()),
    }
}

/// The exit code for these reports: [`NOT_HAPPENED`] if any act did not take effect in time.
fn exit_code(reports: &[ActReport]) -> ExitCode {
    let has_happened = reports.iter().all(|report| report.happened != Some(false));
    if has_happened { ExitCode::SUCCESS } else { ExitCode::from(NOT_HAPPENED) }
}

/// The user's name as the API server knows it. Returns `None` if the request fails, since the audit log has the name
/// anyway.
async fn user(cluster: &Cluster) -> Option<String> {
    let reviews: Api<SelfSubjectReview> = Api::all(cluster.leases.clone());
    let params = PostParams::default();
    let review = SelfSubjectReview::default();
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, reviews.create(&params, &review)).await.ok()?;
    let name = answer.ok()?.status?.user_info?.username?;
    Some(name.chars().take(LONGEST_USER).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::base::cluster::testing::{cluster, failure, list, silent_cluster};
    use crate::base::output::Output;

    #[tokio::test]
    async fn the_name_of_the_user_is_cut_and_an_act_needs_none() {
        for (name, expected) in [("ada", Some("ada".to_owned())), (&*"x".repeat(200), Some("x".repeat(LONGEST_USER)))] {
            let review = json!({ "metadata": {}, "status": { "userInfo": { "username": name } } });
            let (cluster, _) = cluster(move |_| Some((201, review.clone())));
            assert_eq!(user(&cluster).await, expected);
        }
        assert_eq!(user(&cluster(|_| None).0).await, None, "the server knows no such review");
    }

    #[tokio::test]
    async fn a_signal_during_the_wait_ends_the_command_with_the_reports_of_what_is_written() {
        let lease = json!({
            "metadata": { "name": "l", "namespace": "n", "resourceVersion": "5",
                "annotations": { "hustings.io/session": "s/1/15", "hustings.io/pin": "b until 2099-01-01T00:00:00Z" } },
            "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15 },
        });
        let candidates = ["a", "b"].map(|name| {
            json!({
                "metadata": { "name": name, "namespace": "n", "resourceVersion": "5" },
                "spec": { "leaseName": "l", "binaryVersion": "1.0", "emulationVersion": "1.0" },
            })
        });
        let targets = Targets { names: vec!["a".to_owned()], node: None, all_namespaces: false };
        let end = ActExpiry::After(Duration::from_hours(1));
        for act in [
            Act::Candidates { targets, end: Some(end) },
            Act::Lease { lease: "l".to_owned(), act: LeaseAct::Pin { candidate: "b".to_owned(), end } },
        ] {
            let stop = CancellationToken::new();
            // The signal arrives while the command watches the Lease, which never changes.
            let (signal, objects) = (stop.clone(), (lease.clone(), candidates.clone()));
            let cluster = silent_cluster(move |sent| match (sent.method.as_str(), &*sent.path) {
                ("PATCH", path) if path.contains("leasecandidates") => Some((200, objects.1[0].clone())),
                ("PATCH", _) => Some((200, objects.0.clone())),
                (_, path) if path.contains("watch=") => {
                    signal.cancel();
                    None
                }
                (_, path) if path.contains("/hustings.io/") => Some(list(&objects.1)),
                (_, path) if path.contains("/leases/l") => Some((200, objects.0.clone())),
                _ => Some(failure(404)),
            });
            let wait = Some(Duration::from_mins(1));
            let config = Config { act, reason: None, dry_run: false, wait, output: Output::Text };
            let mut reports = Vec::new();
            let error = carry_out(&cluster, &config, |_, _| Err(String::new()), &stop, &mut reports).await.unwrap_err();
            assert!(error.to_string().contains("a signal stopped the command"), "{error:#}");
            let [report] = &*reports else { panic!("{reports:?}") };
            assert!(report.written && report.happened.is_none(), "{report:?}");
        }
    }

    #[test]
    fn one_act_of_several_that_has_not_happened_decides_the_exit_code() {
        let report = |happened| ActReport { happened, ..ActReport::default() };
        for (reports, expected) in [
            (vec![report(None)], ExitCode::SUCCESS),
            (vec![report(Some(true)), report(None)], ExitCode::SUCCESS),
            (vec![report(Some(true)), report(Some(false))], ExitCode::from(NOT_HAPPENED)),
            (vec![report(Some(false)), report(Some(true))], ExitCode::from(NOT_HAPPENED)),
        ] {
            assert_eq!(exit_code(&reports), expected, "{reports:?}");
        }
    }
}
