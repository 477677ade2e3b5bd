//! Tests of what the page shows of acts and of assisted Leases.

use super::*;

#[test]
fn acts_show_when_they_end_and_a_malformed_act_is_a_warning() {
    let mut scene = Scene::new(&two());
    let until = "2026-01-02T04:00:00Z";
    scene.lease(
        "a",
        "s/1/15",
        7,
        &json!({ "hustings.io/hold": "works", "hustings.io/hold-until": until,
        "hustings.io/pin": format!("a until {until}"), "hustings.io/asked-by": "kim" }),
    );
    let view = scene.decided();
    let acts: Vec<_> =
        view.acts.iter().map(|act| (act.act, act.text.as_str(), act.until.map(|until| until.0.to_string()))).collect();
    assert_eq!(acts, [("pause", "works", Some(until.to_owned())), ("pin", "a", Some(until.to_owned()))]);
    assert_eq!(view.acts[0].asked_by.as_deref(), Some("kim"));

    let malformed = json!({ "hustings.io/pin": "<b>a</b>\u{202e}", "hustings.io/hold-until": "noon" });
    let mut excluded = two();
    excluded[1]["metadata"]["annotations"] = json!({ "hustings.io/exclude": "soon" });
    let mut scene = Scene::new(&excluded);
    scene.lease("a", "s/1/15", 7, &malformed);
    let view = scene.decided();
    assert_eq!(view.severity, Severity::Warning);
    for annotation in ["hustings.io/pin", "hustings.io/hold-until", "hustings.io/exclude"] {
        assert!(texts(&view).iter().any(|text| text.contains(annotation)), "{view:?}");
    }
    assert!(!format!("{view:?}").contains('\u{202e}'), "no text reorders the page");
}

#[test]
fn what_keeps_a_label_from_the_leader_is_a_warning_until_it_is_over() {
    let mut scene = Scene::new(&two());
    scene.lease("a", "s/1/15", 7, &json!({}));
    let before = scene.decided();
    scene.display.label(Some("The label x=y is not kept: \u{202e}refused"));
    let view = scene.view(true);
    assert_eq!(view.severity, Severity::Warning);
    assert!(texts(&view).contains(&r"The label x=y is not kept: \u{202e}refused"), "{view:?}");
    scene.display.label(None);
    assert_eq!(scene.view(true).problems, before.problems);
}

#[test]
fn an_assisted_holder_is_shown_as_such_with_a_warning_while_nothing_would_prove_its_death() {
    let annotations = json!({ "hustings.io/assist": "" });
    let mut scene = Scene::new(&[]);
    scene.lease("web-0_1", "", 7, &annotations);
    let doubt = "Nothing would prove the death of the assisted holder: the controllers have no --evidence-pods.";
    assert_eq!(texts(&scene.decided()), [doubt]);

    let evidence = EvidenceConfig { pods: true, ..EvidenceConfig::default() };
    scene = Scene { election: Election::new(Config { evidence, ..Config::default() }, "n", "l"), ..Scene::new(&[]) };
    scene.lease("web-0_1", "", 7, &annotations);
    let view = scene.decided();
    assert_eq!((view.state, view.severity), ("assisted", Severity::Warning));
    let why = "The holder knows nothing of Hustings. The controller releases the Lease once the holder is proven dead.";
    let doubt = "Nothing would prove the death of the assisted holder: no Pod of the holder is known.";
    assert_eq!((&*view.why, texts(&view)), (why, vec![doubt]));
    let pod = PodRecord { name: "web-0".into(), uid: "u".into(), ..PodRecord::default() };
    let containers: Box<[_]> = [ContainerRecord::ended("app", [])].into();
    let shared = "Nothing would prove the death of the assisted holder: the Pod shares a process namespace, so processes may \
                  outlive their container.";
    for (containers, share_process_namespace, expected) in [
        // The kubelet has not reported the Pod yet.
        ([].into(), false, &[][..]),
        (containers.clone(), true, &[shared]),
        (containers, false, &[]),
    ] {
        let record = PodRecord { containers, share_process_namespace, ..pod.clone() };
        scene.observe(Observation::Pod { record: record.into() });
        let view = scene.decided();
        assert_eq!((view.state, &*texts(&view)), ("assisted", expected));
    }

    scene.lease("web-0_1", "", 7, &json!({ "hustings.io/assist": "", "hustings.io/hold": "works" }));
    let paused = "The holder knows nothing of Hustings. Elections are paused, so the controller does not release the Lease, \
                  even if the holder is proven dead.";
    assert_eq!(scene.decided().why, paused);
}
