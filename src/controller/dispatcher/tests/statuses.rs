//! The statuses that the dispatcher writes.

use hustings_core::model::{RecordedStatus, Request};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher;

use super::*;
use crate::controller::status::Transitions;
use crate::controller::stores::Stored;

#[test]
fn a_status_keeps_the_transition_times_of_the_last_watched_version() {
    let leading = json!({ "type": "Leading", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z",
        "reason": "", "message": "" });
    let shown = ReadCandidate::from_json(json!({
        "metadata": { "namespace": "n", "name": "a" },
        "spec": { "leaseName": "l" },
        "status": { "state": "Holder", "conditions": [leading] },
    }));
    let shown = Stored::of(shown).unwrap();
    let (mut writer, mut stores) = (Writer::default(), Stores::default());
    writer.apply_watcher_event(&watcher::Event::Apply(shown.clone()));
    stores.add_candidates(&Scope::Cluster, writer.as_reader());
    let patch = |name: &str| Action::PatchStatus {
        candidate: CandidateKey::hustings(name),
        uid: "u".into(),
        status: RecordedStatus::default(),
    };
    let actions = vec![patch("a"), Request::read_lease("l").into(), patch("unknown")];
    let (statuses, others) = split_statuses(&LeaseKey::new("n", "l"), &stores, actions);
    assert_eq!(others, [Action::from(Request::read_lease("l"))]);
    let kept: Vec<_> = statuses.iter().map(|status| (&*status.candidate.name, status.transitions)).collect();
    assert_eq!(kept, [("a", shown.content.transitions), ("unknown", Transitions::default())]);
    assert!(shown.content.transitions != Transitions::default());
}
