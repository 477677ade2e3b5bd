//! `hustings pause`, `resume`, `transfer`, `pin`, `unpin`, `exclude` and `include`: the acts of administrators.
//!
//! Each command writes annotations on the version that it read, and the controller carries out the act. These rules
//! hold:
//!
//! - A command writes nothing that the controller would refuse. It runs the controller's own decision first
//!   (`src/forecast.rs`).
//! - A command never overwrites an act that it has not read. If another administrator was faster, the command writes
//!   nothing and reports that administrator's act.
//! - Every wait has a bound.

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

pub use self::config::{Act, ActExpiry, Config, LeaseAct, Targets};
use self::report::Report;
use self::requests::REQUEST_TIMEOUT;
use crate::access::Access;
use crate::cluster::Cluster;
use crate::terminal::print;

/// The exit code if the act was written but did not take effect within the wait.
const NOT_HAPPENED: u8 = 4;

/// The length to which a user's name is cut, in characters.
const LONGEST_USER: usize = 128;

/// Carries out the act. The exit code is 4 if the act was written but did not take effect within the wait.
///
/// # Errors
/// Fails if a request fails, or with the exit code 3 if the act makes no sense now.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(access, "act").await?;
    let asked_by = user(&cluster).await;
    let mut reports = Vec::new();
    let done = match &config.act {
        Act::Lease { lease, act } => leases::carry_out(&cluster, lease, act, &config, asked_by.as_deref())
            .await
            .map(|report| reports.push(report)),
        Act::Candidates { targets, end } => {
            candidates::carry_out(&cluster, targets, *end, &config, asked_by.as_deref(), &mut reports).await
        }
    };
    // An error in the middle does not undo what was written before.
    for report in &reports {
        print(&report.text(config.output)?)?;
    }
    done?;
    Ok(exit_code(&reports))
}

/// The exit code for these reports: [`NOT_HAPPENED`] if any act did not take effect in time.
fn exit_code(reports: &[Report]) -> ExitCode {
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
    use serde_json::json;

    use super::*;
    use crate::cluster::testing::cluster;

    #[tokio::test]
    async fn the_name_of_the_user_is_cut_and_an_act_needs_none() {
        for (name, expected) in [("ada", Some("ada".to_owned())), (&*"x".repeat(200), Some("x".repeat(LONGEST_USER)))] {
            let review = json!({ "metadata": {}, "status": { "userInfo": { "username": name } } });
            let (cluster, _) = cluster(move |_| Some((201, review.clone())));
            assert_eq!(user(&cluster).await, expected);
        }
        assert_eq!(user(&cluster(|_| None).0).await, None, "the server knows no such review");
    }

    #[test]
    fn one_act_of_several_that_has_not_happened_decides_the_exit_code() {
        let report = |happened| Report { happened, ..Report::default() };
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
