use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::base::cluster::testing::{cluster, list};
use crate::base::output::Output;
use crate::operate::acts::config::Act;

fn candidate(version: &str, exclude: Option<&str>) -> Value {
    let annotations = exclude.map(|exclude| json!({ "hustings.io/exclude": exclude }));
    let metadata = json!({ "name": "a", "namespace": "n", "resourceVersion": version, "annotations": annotations });
    json!({ "metadata": metadata, "spec": { "leaseName": "l", "binaryVersion": "1.0", "emulationVersion": "1.0" } })
}

#[tokio::test]
async fn an_exclusion_of_several_candidates_takes_effect_when_none_of_them_leads() {
    let end = Some(ActExpiry::After(Duration::from_hours(1)));
    for (holder, happened) in [("a", false), ("b", false), ("c", true), ("", true)] {
        let targets = Targets { names: vec!["a".to_owned(), "b".to_owned()], node: None, all_namespaces: false };
        let config = Config {
            act: Act::Candidates { targets: targets.clone(), end },
            reason: None,
            dry_run: false,
            wait: Some(Duration::from_millis(300)),
            output: Output::Text,
        };
        let both = ["a", "b"].map(|name| {
            let mut candidate = candidate("5", None);
            candidate["metadata"]["name"] = json!(name);
            candidate
        });
        let lease = json!({
            "metadata": { "name": "l", "namespace": "n", "annotations": { "hustings.io/session": "s/1/15" } },
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15 },
        });
        let (cluster, _) = cluster(move |request| match request.method {
            Method::PATCH => Some((200, both[0].clone())),
            _ if request.path.contains("hustings.io") => Some(list(&both)),
            _ => request.path.contains("/leases/l").then(|| (200, lease.clone())),
        });
        let mut reports = Vec::new();
        carry_out(&cluster, &targets, end, &config, None, &mut reports).await.unwrap();
        assert_eq!(reports.last().unwrap().happened, Some(happened), "{reports:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_exclusions_are_written_before_the_waits_for_their_leases_which_run_at_the_same_time() {
    let end = Some(ActExpiry::After(Duration::from_hours(1)));
    let targets = Targets { names: vec!["a".to_owned(), "b".to_owned()], node: None, all_namespaces: false };
    let timeout = Duration::from_mins(1);
    let config = Config {
        act: Act::Candidates { targets: targets.clone(), end },
        reason: None,
        dry_run: false,
        wait: Some(timeout),
        output: Output::Text,
    };
    let both = [("a", "la"), ("b", "lb")].map(|(name, lease)| {
        let mut candidate = candidate("5", None);
        (candidate["metadata"]["name"], candidate["spec"]["leaseName"]) = (json!(name), json!(lease));
        candidate
    });
    // Neither holder hands over.
    let (cluster, requests) = cluster(move |request| match request.method {
        Method::PATCH => Some((200, both[0].clone())),
        _ if request.path.contains("hustings.io") => Some(list(&both)),
        _ => [("a", "la"), ("b", "lb")]
            .into_iter()
            .find(|(_, lease)| request.path.contains(&format!("/leases/{lease}")))
            .map(|(holder, lease)| {
                let lease = json!({
                    "metadata": { "name": lease, "namespace": "n", "annotations": { "hustings.io/session": "s/1/15" } },
                    "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15 },
                });
                (200, lease)
            }),
    });
    let began = tokio::time::Instant::now();
    let mut reports = Vec::new();
    carry_out(&cluster, &targets, end, &config, None, &mut reports).await.unwrap();
    let elapsed = began.elapsed();
    assert!(elapsed < timeout + timeout / 2, "{elapsed:?}");
    assert!(reports.iter().all(|report| report.happened == Some(false)), "{reports:?}");
    let requests = requests.lock().unwrap();
    let last_write = requests.iter().rposition(|sent| sent.method == Method::PATCH);
    let first_read = requests.iter().position(|sent| sent.path.contains("/leases/"));
    assert!(last_write < first_read, "{requests:?}");
}

#[tokio::test]
async fn the_candidates_of_a_node_are_found_in_each_namespace() {
    let of = |namespace: &str| {
        let mut candidate = candidate("5", None);
        let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": format!("of-{namespace}") });
        candidate["metadata"]["namespace"] = json!(namespace);
        candidate["metadata"]["ownerReferences"] = json!([owner]);
        candidate
    };
    let pods = ["n1", "n2"].map(
        |namespace| json!({ "metadata": { "name": "p", "namespace": namespace, "uid": format!("of-{namespace}") } }),
    );
    let (cluster, _) = cluster(move |request| {
        let namespace = ["n1", "n2"].into_iter().find(|name| request.path.contains(&format!("/{name}/")));
        match namespace {
            Some(namespace) => request.path.contains("hustings.io").then(|| list(&[of(namespace)])),
            None => request.path.starts_with("/api/v1/pods?").then(|| list(&pods)),
        }
    });
    let targets = Targets { names: Vec::new(), node: Some("node".to_owned()), all_namespaces: true };
    let found = find(&cluster, &targets, false).await.unwrap();
    let found: Vec<_> = found.iter().map(|(namespace, found)| (&**namespace, found.len())).collect();
    assert_eq!(found, [("n1", 1), ("n2", 1)]);
}

#[test]
fn only_a_candidate_that_is_excluded_is_included_again_with_its_node() {
    let pods = [PodRecord { name: "a".into(), uid: "here".into(), ..PodRecord::default() }];
    let candidate = |name: &str, pod: Option<&str>, annotations: serde_json::Value| {
        let owner = pod.map(|pod| json!({ "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": pod }));
        let owners: Vec<_> = owner.into_iter().collect();
        let metadata = json!({ "name": name, "annotations": annotations, "ownerReferences": owners });
        ReadCandidate::from_json(json!({ "metadata": metadata }))
    };
    let exclude = || json!({ "hustings.io/exclude": "2027-01-01T00:00:00Z: drain" });
    for (candidate, to_exclude, to_include) in [
        (candidate("a", Some("here"), json!({})), true, false),
        (candidate("a", Some("here"), exclude()), true, true),
        (candidate("a", Some("there"), exclude()), false, false),
        // A static pod owns no candidate.
        (candidate("a", None, exclude()), true, true),
        (candidate("b", None, exclude()), false, false),
    ] {
        let found = [false, true].map(|includes| is_target(&candidate.record, &pods, includes));
        assert_eq!(found, [to_exclude, to_include]);
    }
}
