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
mod leases;
mod outcome;
mod plan;
mod report;
mod scene;

use std::process::ExitCode;
use std::time::Duration;

use hustings_core::model::{Transfer, WireTime};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;

use self::report::Report;
use crate::access::Access;
use crate::cluster::{Cluster, api_error};
use crate::hint::Hinted;
use crate::output::Output;
use crate::terminal::print;

/// The exit code if the act makes no sense now. The command has then written nothing.
const REFUSED: u8 = 3;

/// The exit code if the act was written but did not take effect within the wait.
const NOT_HAPPENED: u8 = 4;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The length to which a user's name is cut, in characters.
const LONGEST_USER: usize = 128;

/// The configuration of a command: one act, and how to report it.
#[derive(Clone, Debug)]
pub struct Config {
    /// The act.
    pub act: Act,
    /// Why, in the administrator's words.
    pub reason: Option<String>,
    /// Whether to write nothing and only print what the controller would do.
    pub dry_run: bool,
    /// How long to wait for the act to take effect; `None` to return at once.
    pub wait: Option<Duration>,
    /// The output format.
    pub output: Output,
}

/// An act of an administrator.
#[derive(Clone, Debug)]
pub enum Act {
    /// An act on a Lease.
    Lease {
        /// Its name.
        lease: String,
        /// The act.
        act: LeaseAct,
    },
    /// Excludes candidates until the end, or includes them again.
    Candidates {
        /// Which candidates.
        targets: Targets,
        /// When the exclusion ends; `None` to include the candidates.
        end: Option<End>,
    },
}

/// An act on a Lease.
#[derive(Clone, Debug)]
pub enum LeaseAct {
    /// Pauses the elections.
    Pause(Option<End>),
    /// Ends the pause.
    Resume,
    /// Moves the Lease to another candidate, once.
    Transfer(Transfer),
    /// Ranks a candidate first.
    Pin {
        /// Its name.
        candidate: String,
        /// When the pin ends.
        end: End,
    },
    /// Ends the pin.
    Unpin,
}

/// When an act ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// After this duration.
    After(Duration),
    /// At this time.
    At(WireTime),
}

/// Which candidates an act concerns.
#[derive(Clone, Debug)]
pub struct Targets {
    /// Candidates by name.
    pub names: Vec<String>,
    /// All candidates whose Pods run on this node.
    pub node: Option<String>,
    /// Whether to look for the Pods of the node in all namespaces.
    pub all_namespaces: bool,
}

impl End {
    /// The time at which the act ends, by the wall clock `now`.
    fn at(self, now: WireTime) -> Result<WireTime, Hinted> {
        match self {
            Self::After(Duration::ZERO) => Err(refused("--for 0s ends at once", "use a duration such as 30m")),
            Self::After(duration) => Ok(now.after(duration)),
            Self::At(time) if time <= now => {
                Err(refused(format!("--until {time} has passed: it is {now}"), "use a later time, or --for 30m"))
            }
            Self::At(time) => Ok(time),
        }
    }
}

/// Carries out the act. The exit code is 4 if the act was written but did not take effect within the wait.
///
/// # Errors
/// Fails if a request fails, or with the exit code 3 if the act makes no sense now.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(access, "act").await?;
    let asked_by = user(&cluster).await;
    let reports = match &config.act {
        Act::Lease { lease, act } => vec![leases::carry_out(&cluster, lease, act, &config, asked_by.as_deref()).await?],
        Act::Candidates { targets, end } => {
            candidates::carry_out(&cluster, targets, *end, &config, asked_by.as_deref()).await?
        }
    };
    for report in &reports {
        print(&report.text(config.output)?)?;
    }
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

/// An error for an act that makes no sense now.
fn refused(message: impl Into<String>, hint: impl Into<String>) -> Hinted {
    Hinted::new(message, hint).with_exit_code(REFUSED)
}

/// An error that names the `attempt` that failed. If a permission is missing, the hint names the role that grants it.
fn explain(cluster: &Cluster, attempt: &str, error: kube::Error) -> anyhow::Error {
    match &error {
        kube::Error::Api(status) if status.code == 403 => {
            let hint = format!("bind the chart's ClusterRole hustings-operator in namespace {}", cluster.namespace);
            api_error(error).context(Hinted::new(attempt, hint))
        }
        _ => cluster.explain(attempt, error),
    }
}

/// Limits a request to [`REQUEST_TIMEOUT`].
async fn within<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    let timed_out = |_| kube::Error::Service("the API server did not answer in time".into());
    tokio::time::timeout(REQUEST_TIMEOUT, request).await.map_err(timed_out)?
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
    fn an_end_that_has_passed_is_refused() {
        let now = WireTime::from_micros(1_000_000);
        assert_eq!(End::After(Duration::from_secs(1)).at(now).unwrap(), WireTime::from_micros(2_000_000));
        assert_eq!(End::At(WireTime::from_micros(1_000_001)).at(now).unwrap(), WireTime::from_micros(1_000_001));
        for end in [End::After(Duration::ZERO), End::At(now)] {
            assert_eq!(end.at(now).unwrap_err().exit_code(), Some(REFUSED));
        }
    }

    #[test]
    fn one_act_of_several_that_has_not_happened_decides_the_exit_code() {
        let report = |happened| Report { happened, ..Report::default() };
        for (reports, expected) in [
            (vec![report(None)], ExitCode::SUCCESS),
            (vec![report(Some(true)), report(None)], ExitCode::SUCCESS),
            (vec![report(Some(true)), report(Some(false))], ExitCode::from(NOT_HAPPENED)),
        ] {
            assert_eq!(exit_code(&reports), expected, "{reports:?}");
        }
    }
}
