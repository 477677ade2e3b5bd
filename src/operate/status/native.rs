//! Reads the candidates of Kubernetes' own components, and judges each.
//!
//! These candidates have no status in which a controller could record why they do not lead. So this module runs the
//! controller's own decision over the objects that the command has read. It pings no candidate, so it cannot know which
//! of them are live.

use hustings_client::api::{ReadCandidate, names};
use hustings_client::store::discover_native;
use hustings_core::election::{CandidateVerdict, Reason};
use hustings_core::model::{CandidateKey, CandidateKind, CandidateRecord, Now, Observed, RecordedStatus};
use kube::api::ListParams;
use kube::{Client, Error};
use serde::Serializer;

use super::snapshot::election;
use crate::base::cluster::{limited, scoped_native};
use crate::base::pages::{Pages, TIMEOUT};

/// Reads the native candidates of one namespace, or of all. Returns `None` if the caller may not list them, and an
/// empty list if the server does not serve their API.
pub(crate) async fn list(
    client: &Client,
    namespace: Option<&str>,
    params: &ListParams,
) -> Result<Option<Vec<ReadCandidate>>, Error> {
    match list_served(client, namespace, params).await {
        Ok(candidates) => Ok(Some(candidates)),
        Err(Error::Api(status)) if status.code == 403 => Ok(None),
        // The server stopped serving the API after the discovery.
        Err(Error::Api(status)) if status.code == 404 => Ok(Some(Vec::new())),
        Err(error) => Err(error),
    }
}

async fn list_served(
    client: &Client,
    namespace: Option<&str>,
    params: &ListParams,
) -> Result<Vec<ReadCandidate>, Error> {
    let Some(version) = limited(TIMEOUT, discover_native(client)).await? else { return Ok(Vec::new()) };
    let candidates = scoped_native(client.clone(), namespace, version);
    Ok(Pages::new(candidates, params.clone()).all().await?.into_iter().map(ReadCandidate::from).collect())
}

/// Serializes a kind as its API group.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn api_group<S: Serializer>(kind: &CandidateKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match kind {
        CandidateKind::Hustings => names::GROUP,
        CandidateKind::Native => names::NATIVE_GROUP,
    })
}

/// Gives each native candidate of a Lease a state and a message, which it derives from the objects. Returns whether the
/// holder is a native candidate; without a holder, whether all candidates are.
pub(super) fn judge(key: (&str, &str), lease: Option<&Observed>, candidates: &mut [ReadCandidate], now: Now) -> bool {
    let is_native = |candidate: &ReadCandidate| candidate.record.kind == CandidateKind::Native;
    if !candidates.iter().any(is_native) {
        return false;
    }
    let mut election = election(key, lease, candidates.iter().map(|candidate| &candidate.record), now);
    let verdicts = election.decide(now).candidates;
    for CandidateRecord { kind, name, status, ping_time, renew_time, .. } in
        candidates.iter_mut().map(|candidate| &mut candidate.record)
    {
        let key = CandidateKey { name: name.as_str().into(), kind: *kind };
        let verdict = verdicts.iter().find(|verdict| verdict.candidate == key);
        if let (CandidateKind::Native, Some(verdict)) = (kind, verdict) {
            let message = message(verdict, ping_time > renew_time);
            *status = RecordedStatus { message, ..verdict.status() };
        }
    }
    election.holder().map_or_else(|| candidates.iter().all(is_native), |holder| holder.kind == CandidateKind::Native)
}

/// The reason of a verdict. It does not claim that a better candidate is live, since this command pings nobody.
fn message(verdict: &CandidateVerdict, awaits_answer: bool) -> String {
    match &verdict.reason {
        Reason::Asked if awaits_answer => {
            "Better than the holder; has not answered its last ping yet, or answered it with an earlier time."
                .to_owned()
        }
        Reason::Asked => "Better than the holder, if it is live.".to_owned(),
        reason => reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use hustings_client::api::{ReadLease, ReadNativeCandidate};
    use hustings_core::model::{Moment, WireTime};
    use serde_json::{Value, json};

    use super::super::snapshot::{LeaseRow, LeaseState, rows};
    use super::*;
    use crate::base::cluster::testing::{cluster, failure};

    const NOW: Now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(0) };

    fn native(name: &str, binary: &str, emulation: &str) -> ReadCandidate {
        native_pinged(name, binary, emulation, None)
    }

    fn native_pinged(name: &str, binary: &str, emulation: &str, pinged: Option<&str>) -> ReadCandidate {
        let spec = json!({
            "leaseName": "kcm", "binaryVersion": binary, "emulationVersion": emulation, "pingTime": pinged,
            "strategy": "OldestEmulationVersion", "renewTime": "2026-01-02T03:04:05.000000Z",
        });
        let metadata = json!({ "name": name, "namespace": "n", "uid": name });
        ReadNativeCandidate::from_json(json!({ "metadata": metadata, "spec": spec })).into()
    }

    fn hustings(name: &str) -> ReadCandidate {
        let spec = json!({ "leaseName": "kcm", "binaryVersion": "1.40", "emulationVersion": "1.40" });
        ReadCandidate::from_json(json!({ "metadata": { "name": name, "namespace": "n", "uid": name }, "spec": spec }))
    }

    /// The row of a Lease without the label of Hustings that was read `seconds` ago and has not changed since.
    fn row(annotations: &Value, spec: &Value, candidates: Vec<ReadCandidate>, seconds: u64) -> LeaseRow {
        let metadata = json!({ "name": "kcm", "namespace": "n", "uid": "u", "annotations": annotations });
        let lease = ReadLease::from_json(json!({ "metadata": metadata, "spec": spec }));
        let key = ("n".to_owned(), "kcm".to_owned());
        let observed = BTreeMap::from([(key, Observed::first(lease.record.clone(), NOW.moment))]);
        let now = Now { moment: NOW.moment.after(Duration::from_secs(seconds)), ..NOW };
        let mut rows = rows(vec![lease], candidates, &observed, now, false);
        assert_eq!(rows.len(), 1);
        rows.remove(0)
    }

    fn held_by(holder: &str) -> Value {
        json!({
            "holderIdentity": holder, "leaseDurationSeconds": 15, "strategy": "OldestEmulationVersion",
            "acquireTime": "2026-01-02T03:04:05.000000Z", "renewTime": "2026-01-02T03:05:05.000000Z",
        })
    }

    fn shown(row: &LeaseRow) -> Vec<(Option<usize>, &str, Option<&str>, &str)> {
        row.candidates.iter().map(|row| (row.rank, row.name.as_str(), row.state, row.reason.as_str())).collect()
    }

    #[test]
    fn a_native_candidate_is_shown_only_with_facts_that_the_objects_prove() {
        let ping = Some("2026-01-02T03:04:06.000000Z");
        let candidates = vec![
            native("invalid", "latest", "1.35"),
            native("worse", "1.37", "1.37"),
            native("holder", "1.36", "1.36"),
            native("better", "1.36", "1.35"),
            native_pinged("silent", "1.36", "1.34", ping),
            native_pinged("answered", "1.36", "1.35", Some("2026-01-02T03:04:05.000000Z")),
        ];
        let row = row(&json!({}), &held_by("holder"), candidates, 1);
        assert_eq!((row.state, row.holder.as_deref()), (LeaseState::Held, Some("holder")));
        let invalid = "binaryVersion \"latest\" is not a semantic version: use one such as 1.31.0.";
        let expected = [
            (
                Some(1),
                "silent",
                Some("Unproven"),
                "Better than the holder; has not answered its last ping yet, or answered it with an earlier time.",
            ),
            (Some(2), "answered", Some("Unproven"), "Better than the holder, if it is live."),
            (Some(3), "better", Some("Unproven"), "Better than the holder, if it is live."),
            (Some(4), "holder", Some("Holder"), "Holds the Lease."),
            (Some(5), "worse", Some("Unproven"), "The holder has an older emulation version."),
            (None, "invalid", Some("Invalid"), invalid),
        ];
        assert_eq!(shown(&row), expected);
        let holder = &row.candidates[3];
        assert_eq!((holder.kind, holder.priority), (CandidateKind::Native, None));
    }

    #[test]
    fn strategy_and_preferred_holder_of_a_native_holder_are_those_of_the_spec() {
        let annotations = json!({ "hustings.io/strategy": "x.io/Y", "hustings.io/preferred-holder": "a" });
        let mut spec = held_by("a");
        spec["preferredHolder"] = json!("b");
        let candidates = || vec![native("a", "1.36", "1.36"), native("b", "1.36", "1.35")];
        let of_native = row(&annotations, &spec, candidates(), 1);
        let fields = (of_native.strategy.as_deref(), of_native.preferred.as_deref());
        assert_eq!(fields, (Some("OldestEmulationVersion"), Some("b")));
        assert_eq!(of_native.candidates[0].state, Some("Preferred"));

        let of_another = row(&annotations, &spec, vec![hustings("a")], 1);
        let fields = (of_another.strategy.as_deref(), of_another.preferred.as_deref());
        assert_eq!(fields, (Some("x.io/Y"), Some("a")), "its holder reads the annotations");

        spec["holderIdentity"] = json!("");
        for (candidates, strategy) in
            [(candidates(), "OldestEmulationVersion"), (vec![native("b", "1.36", "1.35"), hustings("a")], "x.io/Y")]
        {
            let without_a_holder = row(&annotations, &spec, candidates, 1);
            assert_eq!(without_a_holder.strategy.as_deref(), Some(strategy), "{without_a_holder:?}");
        }
    }

    #[test]
    fn a_native_grant_is_recognized_by_its_times_and_not_by_a_mark_that_client_go_kept() {
        let open = json!({ "hustings.io/session": "open" });
        let candidates = || vec![native("a", "1.36", "1.36")];
        let renewed = row(&open, &held_by("a"), candidates(), 1);
        assert_eq!((renewed.state, renewed.candidates[0].state), (LeaseState::Held, Some("Holder")));
        let mut grant = held_by("a");
        grant["leaseDurationSeconds"] = json!(5);
        grant["renewTime"] = grant["acquireTime"].clone();
        let granted = row(&json!({}), &grant, candidates(), 1);
        assert_eq!(granted.state, LeaseState::Granted);
        assert_eq!(granted.candidates[0].reason, "Elected; has not taken up the grant yet.");
    }

    #[test]
    fn an_expired_native_holder_is_no_longer_shown_as_the_holder() {
        let candidates = vec![native("a", "1.36", "1.36"), native("b", "1.36", "1.36")];
        let row = row(&json!({}), &held_by("a"), candidates, 16);
        assert_eq!(row.state, LeaseState::Expired);
        for candidate in &row.candidates {
            let shown = (candidate.state, candidate.reason.as_str());
            assert_eq!(shown, (Some("Unproven"), "The Lease has no holder yet."), "{}", candidate.name);
        }
    }

    #[test]
    fn native_candidates_of_a_missing_lease_get_a_derived_state() {
        let rows = rows(Vec::new(), vec![native("a", "1.36", "1.36")], &BTreeMap::new(), NOW, false);
        assert_eq!((rows.len(), rows[0].state), (1, LeaseState::Missing));
        assert_eq!(shown(&rows[0]), [(Some(1), "a", Some("Unproven"), "The Lease has no holder yet.")]);
    }

    #[test]
    fn candidates_of_both_kinds_are_ranked_together_and_only_native_ones_get_a_derived_state() {
        let row = row(&json!({}), &held_by("a"), vec![hustings("h"), native("a", "1.36", "1.36")], 1);
        let states: Vec<_> = row.candidates.iter().map(|row| (row.rank, row.name.as_str(), row.state)).collect();
        assert_eq!(states, [(Some(1), "a", Some("Holder")), (Some(2), "h", None)]);
    }

    #[test]
    fn a_holder_without_candidate_and_token_is_unexplained() {
        let unexplained = |annotations: Value, candidates| row(&annotations, &held_by("a"), candidates, 1);
        let enrolled = vec![native("b", "1.36", "1.36")];
        assert!(unexplained(json!({}), enrolled.clone()).has_unexplained_holder());
        assert!(!unexplained(json!({ "hustings.io/token": "7" }), enrolled).has_unexplained_holder());
        assert!(!unexplained(json!({}), vec![native("a", "1.36", "1.36")]).has_unexplained_holder());
    }

    #[tokio::test]
    async fn an_api_that_is_not_served_differs_from_a_forbidden_list() {
        let listed = async |status: u16| {
            let (cluster, _) = cluster(move |sent| {
                let resources = json!({
                    "kind": "APIResourceList", "groupVersion": "coordination.k8s.io/v1beta1",
                    "resources": [{ "name": "leasecandidates", "singularName": "", "namespaced": true,
                        "kind": "LeaseCandidate", "verbs": [] }],
                });
                let list = json!({ "metadata": {}, "items": [{ "metadata": { "name": "a", "namespace": "n" } }] });
                let is_list = sent.path.contains("/v1beta1/namespaces/n/leasecandidates");
                Some(match status {
                    _ if !is_list => (200, resources),
                    200 => (200, list),
                    _ => failure(status),
                })
            });
            let read = list(&cluster.leases, Some("n"), &ListParams::default()).await;
            read.map(|candidates| candidates.map(|all| all.into_iter().map(|one| one.record.name).collect::<Vec<_>>()))
        };
        assert_eq!(listed(200).await.unwrap(), Some(vec!["a".to_owned()]));
        assert_eq!(listed(404).await.unwrap(), Some(Vec::new()));
        assert_eq!(listed(403).await.unwrap(), None);
        assert!(listed(500).await.is_err(), "an outage is no answer");
    }
}
