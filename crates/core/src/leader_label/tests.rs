//! Tests of the label that leads to the leader.

use proptest::prelude::*;

use super::*;

fn label() -> PodLabel {
    PodLabel { key: "role".to_owned(), value: "leader".to_owned() }
}

fn pod(name: &str) -> Pod {
    Pod { name: name.to_owned(), uid: format!("uid-{name}") }
}

fn seen(name: &str, value: Option<&str>) -> LabelledPod {
    LabelledPod { pod: pod(name), value: value.map(str::to_owned), is_original: false }
}

#[test]
fn the_label_moves_to_the_pod_of_the_holder_once_no_other_pod_has_it() {
    let original = |name: &str, value| LabelledPod { is_original: true, ..seen(name, value) };
    let refused = |pod: &str| LabelStep::Refuse(LabelRefusal::Original(pod.to_owned()));
    let leader = Some("leader");
    for (holder, all, expected) in [
        (None, vec![], LabelStep::Done),
        (None, vec![seen("a", leader)], LabelStep::Remove(vec![pod("a")])),
        (Some("b"), vec![], LabelStep::Done),
        (Some("b"), vec![seen("b", None)], LabelStep::Add(pod("b"))),
        (Some("b"), vec![seen("b", leader)], LabelStep::Done),
        (Some("b"), vec![seen("a", leader), seen("b", None)], LabelStep::Remove(vec![pod("a")])),
        (
            Some("b"),
            vec![seen("a", leader), seen("b", leader), seen("c", leader)],
            LabelStep::Remove(vec![pod("a"), pod("c")]),
        ),
        (Some("b"), vec![seen("a", Some("standby")), seen("b", None)], LabelStep::Add(pod("b"))),
        (Some("b"), vec![original("a", leader), seen("b", None)], refused("a")),
        (Some("b"), vec![original("b", leader), seen("a", leader)], refused("b")),
        (None, vec![original("a", leader)], refused("a")),
        (
            Some("b"),
            vec![original("b", Some("standby"))],
            LabelStep::Refuse(LabelRefusal::OtherValue { pod: "b".to_owned(), value: "standby".to_owned() }),
        ),
    ] {
        assert_eq!(next_step(&label(), holder.map(pod).as_ref(), &all), expected, "{holder:?} {all:?}");
    }
}

/// A Pod of the same name that has replaced the holder's is another Pod.
#[test]
fn a_pod_is_known_by_its_uid() {
    let holder = Pod { name: "a".to_owned(), uid: "former".to_owned() };
    assert_eq!(next_step(&label(), Some(&holder), &[seen("a", None)]), LabelStep::Done);
    let stray = next_step(&label(), Some(&holder), &[seen("a", Some("leader"))]);
    assert_eq!(stray, LabelStep::Remove(vec![pod("a")]));
}

#[test]
fn labels_of_kubernetes_and_of_hustings_do_not_lead_to_a_leader() {
    let check = |key: &str| PodLabel { key: key.to_owned(), ..label() }.check_leads();
    for good in ["role", "hustings.io/leader", "example.com/leader", "notkubernetes.io/a", "k8s.io.example.com/a"] {
        assert_eq!(check(good), Ok(()), "{good}");
    }
    for reserved in [
        "kubernetes.io/leader",
        "app.kubernetes.io/component",
        "k8s.io/a",
        "a.k8s.io/b",
        "pod-template-hash",
        "controller-revision-hash",
        "job-name",
        "hustings.io/enrolled",
    ] {
        let expected = format!(
            "{reserved:?} belongs to Kubernetes or to Hustings: use another key, such as \"hustings.io/leader\""
        );
        assert_eq!(check(reserved), Err(expected));
    }
}

/// What happens before a step of the controller.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// This Pod holds the Lease from now on, or none.
    Holder(Option<usize>),
    /// A Pod is replaced by one of the same name.
    Replaced(usize),
    /// The writes of the step fail.
    Failure,
    Nothing,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        proptest::option::of(0..PODS).prop_map(Happening::Holder),
        (0..PODS).prop_map(Happening::Replaced),
        Just(Happening::Failure),
        Just(Happening::Nothing),
    ]
}

const PODS: usize = 4;

/// The Pods of a namespace. Only one controller writes the label.
#[derive(Default)]
struct World {
    /// How often each Pod was replaced, and whether it has the label.
    pods: [(u32, bool); PODS],
}

impl World {
    fn pod(&self, number: usize) -> Pod {
        Pod { name: format!("p{number}"), uid: format!("p{number}-{}", self.pods[number].0) }
    }

    fn list(&self) -> Vec<LabelledPod> {
        let value = |number: usize| self.pods[number].1.then(|| "leader".to_owned());
        (0..PODS).map(|at| LabelledPod { pod: self.pod(at), value: value(at), is_original: false }).collect()
    }

    /// Carries out a write, which is conditional on the uid. Returns whether it succeeds.
    fn write(&mut self, pod: &Pod, on: bool) -> bool {
        let number = (0..PODS).find(|number| self.pod(*number) == *pod);
        number.map(|number| self.pods[number].1 = on).is_some()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The controller lists the Pods once in a job, and from then on knows its own successful writes alone.
    #[test]
    fn the_controller_never_labels_two_pods_and_the_holder_gets_the_label_in_the_end(
        happenings in proptest::collection::vec(happening(), 0..40),
    ) {
        let mut world = World::default();
        let mut holder = None;
        // The job in progress: for this holder, with the Pods as it knows them.
        let mut job: Option<(Option<Pod>, Vec<LabelledPod>)> = None;
        for happening in happenings.into_iter().chain([Happening::Nothing; 6]) {
            match happening {
                Happening::Holder(number) => holder = number.map(|number| world.pod(number)),
                Happening::Replaced(number) => {
                    let (replaced, is_labelled) = &mut world.pods[number];
                    *replaced += 1;
                    *is_labelled = false;
                }
                Happening::Failure | Happening::Nothing => {}
            }
            let (target, mut seen) = job.take().unwrap_or_else(|| (holder.clone(), world.list()));
            let (writes, on) = match next_step(&label(), target.as_ref(), &seen) {
                LabelStep::Remove(pods) => (pods, false),
                LabelStep::Add(pod) => (vec![pod], true),
                LabelStep::Done => continue,
                LabelStep::Refuse(why) => panic!("{why}"),
            };
            let mut is_acknowledged = true;
            for pod in writes {
                if matches!(happening, Happening::Failure) || !world.write(&pod, on) {
                    is_acknowledged = false;
                } else if let Some(known) = seen.iter_mut().find(|known| known.pod == pod) {
                    known.value = on.then(|| "leader".to_owned());
                }
            }
            prop_assert!(world.pods.iter().filter(|(_, is_labelled)| *is_labelled).count() <= 1);
            job = is_acknowledged.then_some((target, seen));
        }
        let exists = holder.filter(|holder| (0..PODS).any(|number| world.pod(number) == *holder));
        let labelled: Vec<_> = (0..PODS).filter(|at| world.pods[*at].1).map(|at| world.pod(at)).collect();
        prop_assert_eq!(labelled, Vec::from_iter(exists));
    }
}
