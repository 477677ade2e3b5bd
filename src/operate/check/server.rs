//! Checks the version of the API server.

use k8s_openapi::apimachinery::pkg::version::Info;

use super::limit::TIMEOUT;
use super::report::Finding;
use crate::base::cluster::{Cluster, limited};

const CHECK: &str = "api-server";

/// The oldest minor version of Kubernetes 1 that accepts the CRD, since its rules use the CEL library of that version.
const OLDEST_MINOR: u32 = 34;

/// Checks the version.
///
/// # Errors
/// Fails if the server does not answer, since no other check is possible then.
pub(super) async fn check(cluster: &Cluster) -> anyhow::Result<Finding> {
    let version = limited(TIMEOUT, cluster.leases.apiserver_version()).await;
    let explain = |error| cluster.explain("cannot read the version of the API server", error);
    version.map(|version| judge(&version)).map_err(explain)
}

fn judge(Info { major, minor, git_version, .. }: &Info) -> Finding {
    // Some vendors append a plus sign.
    let number = |text: &str| text.trim_end_matches('+').parse::<u32>().ok();
    let needs = format!("Hustings needs 1.{OLDEST_MINOR} or newer");
    match (number(major), number(minor)) {
        (Some(major), Some(minor)) if (major, minor) >= (1, OLDEST_MINOR) => {
            Finding::ok(CHECK, format!("Kubernetes {git_version}"))
        }
        (Some(_), Some(_)) => Finding::fail(
            CHECK,
            format!("Kubernetes {git_version} is too old"),
            format!("{needs}: upgrade the cluster"),
        ),
        _ => Finding::unknown(CHECK, format!("version {git_version:?} is not one of Kubernetes; {needs}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::cluster::testing::silent_cluster;
    use crate::operate::check::report::Verdict;

    #[test]
    fn versions_before_1_34_are_a_problem() {
        for (major, minor, expected) in [
            ("1", "33", Verdict::Fail),
            ("1", "34", Verdict::Ok),
            ("1", "36+", Verdict::Ok),
            ("2", "0", Verdict::Ok),
            ("", "", Verdict::Unknown),
        ] {
            let info = Info { major: major.to_owned(), minor: minor.to_owned(), ..Info::default() };
            assert_eq!(judge(&info).verdict, expected, "{major}.{minor}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_ends_the_check_in_time() {
        let began = tokio::time::Instant::now();
        let error = check(&silent_cluster(|_| None)).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot read the version of the API server");
        assert_eq!(began.elapsed().as_secs(), TIMEOUT.as_secs());
    }
}
