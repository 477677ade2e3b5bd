//! `kubectl wait` on the conditions of a candidate.

use serde_json::json;

use super::{GUIDE, Programs, succeed};
use crate::acts::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn each_condition_of_a_candidate_ends_a_wait_of_kubectl() {
    let scene = Scene::new("kubectl-wait", &[("web-0", "1.31.0"), ("web-1", "1.32.0")]).await;
    let programs = Programs::new(&scene).await;
    for command in [
        "kubectl wait lcand/web-0 --for=condition=Leading --timeout=60s",
        "kubectl wait lcand --all --for=condition=Admissible --timeout=60s",
        "kubectl wait lcand/web-0 --for=condition=Responsive --timeout=60s",
        "kubectl wait lcand/web-1 --for=condition=Leading=False --timeout=60s",
    ] {
        assert!(GUIDE.contains(&format!("$ {command}\n")), "the guide does not show {command}");
        let printed = succeed(&programs.shell(&scene, command).await);
        assert!(printed.contains("condition met"), "{printed}");
    }

    // Each condition has a valid reason and a message.
    let rows = "{range .items[*].status.conditions[*]}{.type}|{.status}|{.reason}|{.message}{\"\\n\"}{end}";
    let printed = succeed(&programs.kubectl(&scene, &["get", "lcand", "--output", &format!("jsonpath={rows}")]).await);
    assert!(printed.contains("Leading|True|Leads|Holds the Lease.\n"), "{printed}");
    assert!(printed.contains("Leading|False|Outranked|The holder has an older emulation version.\n"), "{printed}");
    for row in printed.lines() {
        let [_, _, reason, message] = row.split('|').collect::<Vec<_>>().try_into().unwrap();
        assert!(reason.starts_with(char::is_uppercase) && reason.chars().all(char::is_alphanumeric), "{row}");
        assert!(message.ends_with('.'), "{row}");
    }

    // No status follows this change, as none follows a ping and its answer: the candidate leads for the same reason.
    let patch = json!({ "spec": { "priority": 7 } }).to_string();
    succeed(&programs.kubectl(&scene, &["patch", "lcand", "web-0", "--type=merge", "--patch", &patch]).await);
    succeed(&programs.kubectl(&scene, &["wait", "lcand/web-0", "--for=condition=Leading", "--timeout=20s"]).await);

    // Someone waits while another candidate leads, and the wait ends with the transfer.
    let mut waiting = programs.command(&scene, "kubectl");
    waiting.args(["wait", "lcand/web-1", "--for=condition=Leading", "--timeout=120s"]);
    let waiting = tokio::spawn(async move { waiting.output().await.unwrap() });
    succeed(&programs.kubectl(&scene, &["hustings", "pin", "web", "--to", "web-1", "--for", "1h", "--wait"]).await);
    succeed(&waiting.await.unwrap());
}
