//! The rules of the CRD. For each, a real server accepts a valid object and rejects an invalid one.

use anyhow::{Context, Result, ensure};
use hustings_client::api::{LeaseCandidate, ReadCandidate};
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::stage::Stage;

/// A merge patch of a valid spec, and a part of the error message if the server rejects the result.
type Case = (Value, Option<&'static str>);

fn cases() -> Vec<Case> {
    let long = |length: usize| "a".repeat(length);
    vec![
        (json!({}), None),
        // leaseName
        (json!({ "leaseName": "a.b-c.9" }), None),
        (json!({ "leaseName": "A_b" }), Some("leaseName must be a DNS subdomain")),
        (json!({ "leaseName": null }), Some("spec.leaseName")),
        (json!({ "leaseName": long(253) }), None),
        (json!({ "leaseName": long(254) }), Some("may not be more than 253 bytes")),
        // binaryVersion
        (json!({ "binaryVersion": "v1.33" }), None),
        (json!({ "binaryVersion": "1.33.0-alpha.1+build.5" }), None),
        (json!({ "binaryVersion": "one" }), Some("binaryVersion must be a semantic version")),
        (json!({ "binaryVersion": null }), Some("spec.binaryVersion")),
        (json!({ "binaryVersion": format!("1.33.0+{}", long(250)) }), Some("may not be more than 256 bytes")),
        // emulationVersion
        (json!({ "emulationVersion": "v1.32" }), None),
        (json!({ "emulationVersion": "1.32.0+newer.build" }), None),
        (json!({ "emulationVersion": "x" }), Some("emulationVersion must be a semantic version")),
        (json!({ "emulationVersion": "1.33" }), Some("emulationVersion must not be above binaryVersion")),
        (json!({ "emulationVersion": null }), Some("emulationVersion is required by the strategies")),
        (
            json!({ "emulationVersion": null, "strategy": "hustings.io/NewestEmulationVersion" }),
            Some("emulationVersion is required by the strategies"),
        ),
        (json!({ "emulationVersion": format!("1.32.0+{}", long(250)) }), Some("may not be more than 256 bytes")),
        (json!({ "emulationVersion": null, "strategy": "example.com/Mine" }), None),
        (
            json!({ "emulationVersion": "1.33", "strategy": "example.com/Mine" }),
            Some("must not be above binaryVersion"),
        ),
        // strategy
        (json!({ "strategy": "OldestEmulationVersion" }), None),
        (json!({ "strategy": "hustings.io/NewestEmulationVersion" }), None),
        (json!({ "strategy": "example.com/My_strategy.v2" }), None),
        (json!({ "strategy": "Mine" }), Some("strategy must be OldestEmulationVersion or a qualified name")),
        (json!({ "strategy": "example.com/a/b" }), Some("strategy must be OldestEmulationVersion or a qualified name")),
        (json!({ "strategy": format!("example.com/{}", long(310)) }), Some("may not be more than 317 bytes")),
        // priority
        (json!({ "priority": 2_147_483_647 }), None),
        (json!({ "priority": -1 }), Some("should be greater than or equal to 0")),
        (json!({ "priority": 2_147_483_648_i64 }), Some("should be less than or equal to 2147483647")),
        // times
        (json!({ "pingTime": "2026-01-01T00:00:00.000001Z", "renewTime": "2026-01-01T00:00:00.000001Z" }), None),
        (json!({ "pingTime": "now" }), Some("must be of type date-time")),
        (json!({ "renewTime": "now" }), Some("must be of type date-time")),
    ]
}

#[tokio::test]
async fn each_rule_of_the_spec_lets_through_and_refuses() -> Result<()> {
    let stage = Stage::with_candidates("crd-rules").await?;
    let api = raw(&stage);
    for (index, (change, refusal)) in cases().into_iter().enumerate() {
        let mut spec = json!({ "leaseName": "l", "binaryVersion": "1.32", "emulationVersion": "1.31" });
        merge(&mut spec, &change);
        let answer = create(&api, &format!("case-{index}"), spec).await;
        match (answer, refusal) {
            (Ok(_), None) => {}
            (Err(kube::Error::Api(status)), Some(refusal)) => {
                ensure!(status.message.contains(refusal), "{change}: refused otherwise: {}", status.message);
            }
            (answer, refusal) => anyhow::bail!("{change}: {answer:?}, expected {refusal:?}"),
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_lease_name_cannot_be_changed_and_the_rest_can() -> Result<()> {
    let stage = Stage::with_candidates("crd-immutable").await?;
    let api = raw(&stage);
    let spec = json!({ "leaseName": "l", "binaryVersion": "1.32", "emulationVersion": "1.31" });
    create(&api, "a", spec).await?;
    let params = PatchParams::default();
    let changed = api.patch("a", &params, &Patch::Merge(json!({ "spec": { "binaryVersion": "1.33" } }))).await;
    changed?;
    let refused = api.patch("a", &params, &Patch::Merge(json!({ "spec": { "leaseName": "m" } }))).await.unwrap_err();
    assert!(refused.to_string().contains("leaseName is immutable"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn defaults_are_filled_in_and_candidates_are_selected_by_their_lease() -> Result<()> {
    let stage = Stage::with_candidates("crd-select").await?;
    let api = raw(&stage);
    for (name, lease) in [("a", "l"), ("b", "m"), ("c", "l")] {
        create(&api, name, json!({ "leaseName": lease, "binaryVersion": "1.32", "emulationVersion": "1.31" })).await?;
    }
    let listed = stage.candidates().list(&ListParams::default().fields("spec.leaseName=l")).await?;
    let names: Vec<&str> = listed.items.iter().map(|candidate| candidate.record.name.as_str()).collect();
    assert_eq!(names, ["a", "c"]);
    let first: &ReadCandidate = listed.items.first().context("listed")?;
    assert_eq!((first.record.priority, first.record.strategy.as_deref()), (0, Some("OldestEmulationVersion")));
    Ok(())
}

#[tokio::test]
async fn the_status_is_a_subresource_with_rules_of_its_own() -> Result<()> {
    let stage = Stage::with_candidates("crd-status").await?;
    let api = raw(&stage);
    create(&api, "a", json!({ "leaseName": "l", "binaryVersion": "1.32", "emulationVersion": "1.31" })).await?;
    let condition = |type_: &str| {
        json!({
            "type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    for (status, valid) in [
        (json!({ "state": "Holder", "message": "m", "dampingCount": 1, "conditions": [condition("Leading")] }), true),
        (json!({ "unresponsiveSince": "2026-01-01T00:00:00.000001Z" }), true),
        (json!({ "dampedUntil": "2026-01-01T00:00:00.000001Z" }), true),
        (json!({ "state": "Leader" }), false),
        (json!({ "message": "m".repeat(1025) }), false),
        (json!({ "dampingCount": -1 }), false),
        (json!({ "unresponsiveSince": "now" }), false),
        (json!({ "dampedUntil": "now" }), false),
        (json!({ "conditions": [condition("Leading"), condition("Leading")] }), false),
    ] {
        let patch = Patch::Merge(json!({ "status": status }));
        let answer = api.patch_status("a", &PatchParams::default(), &patch).await;
        ensure!(answer.is_ok() == valid, "{status}: {answer:?}");
    }
    let read = stage.candidates().get("a").await?;
    assert_eq!(read.status.state.as_deref(), Some("Holder"));
    assert_eq!(read.status.conditions.len(), 1);
    Ok(())
}

#[tokio::test]
async fn kubectl_prints_the_columns_and_explains_every_field() -> Result<()> {
    let stage = Stage::with_candidates("crd-print").await?;
    create(&raw(&stage), "a", json!({ "leaseName": "l", "binaryVersion": "1.32", "emulationVersion": "1.31" })).await?;
    let kubectl = async |arguments: &[&str]| -> Result<String> {
        let output = stage.plane.kubectl(arguments).await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let header =
        |printed: &str| printed.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let printed = kubectl(&["get", "lcand", "-n", &stage.namespace]).await?;
    assert_eq!(header(&printed), "NAME LEASENAME BINARYVERSION EMULATIONVERSION STATE AGE");
    let printed = kubectl(&["get", "hustings", "-n", &stage.namespace, "-o", "wide"]).await?;
    assert_eq!(
        header(&printed),
        "NAME LEASENAME BINARYVERSION EMULATIONVERSION STATE AGE PRIORITY STRATEGY RENEWED MESSAGE"
    );
    let explained = kubectl(&["explain", "leasecandidates.hustings.io", "--recursive"]).await?;
    assert!(explained.contains("emulationVersion"), "{explained}");
    let explained = kubectl(&["explain", "leasecandidates.hustings.io.spec"]).await?;
    assert!(!explained.contains("<no description>"), "{explained}");
    Ok(())
}

fn raw(stage: &Stage) -> Api<DynamicObject> {
    Api::namespaced_with(stage.client.clone(), &stage.namespace, &ApiResource::erase::<LeaseCandidate>(&()))
}

async fn create(api: &Api<DynamicObject>, name: &str, spec: Value) -> Result<DynamicObject, kube::Error> {
    let mut candidate = DynamicObject::new(name, &ApiResource::erase::<LeaseCandidate>(&()));
    candidate.data = json!({ "spec": spec });
    api.create(&PostParams::default(), &candidate).await
}

fn merge(spec: &mut Value, change: &Value) {
    let (Some(spec), Some(change)) = (spec.as_object_mut(), change.as_object()) else { return };
    for (name, value) in change {
        spec.insert(name.clone(), value.clone());
    }
    spec.retain(|_, value| !value.is_null());
}
