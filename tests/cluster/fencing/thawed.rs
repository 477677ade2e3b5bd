//! A holder that was frozen past its lease, and keeps writing when it resumes.

use hustings_client::Fence;
use hustings_controlplane::Process;
use jiff::Timestamp;

use super::stage::{NAME, Stage};
use super::writer::{Kind, Write, command, writes};
use crate::replica::until;

#[tokio::test]
async fn writes_of_a_resumed_holder_under_its_old_term_are_rejected() {
    let stage = Stage::new().await;
    let mut processes = Vec::new();
    for pod in ["first", "second"] {
        let kubeconfig = stage.kubeconfig(pod).await;
        let process = stage.plane.spawn(pod, command(kubeconfig, &stage.namespace, pod)).unwrap();
        passes(&process, 3).await;
        if pod == "first" {
            process.pause().unwrap();
        }
        processes.push(process);
    }
    let [first, second] = &processes[..] else { unreachable!() };
    let thawed = Timestamp::now();
    first.resume().unwrap();

    let late = || {
        let late = all(first).into_iter().filter(|write| write.sent > thawed).collect::<Vec<_>>();
        (late.len() >= 3 * Kind::ALL.len()).then_some(late)
    };
    let late = until("the first writes on", || log(first), async || late()).await;
    for Write { token, kind, refused, .. } in &late {
        let says = refused.as_deref().unwrap_or_else(|| panic!("{kind:?} under {token} has passed:\n{}", log(first)));
        let reason = match kind {
            Kind::Marked | Kind::Creation => "but the newest of Lease",
            Kind::Unmarked | Kind::Deletion => r#"pod "first" does not hold Lease"#,
        };
        assert!(says.contains("fenced-by-my-component") && says.contains(reason), "{kind:?}: {says}");
    }
    let token = all(second)[0].token;
    assert!(token > late[0].token);
    let object = stage.admin().get(NAME).await.unwrap();
    assert_eq!(object.data.unwrap()["data"], "second");
    assert_eq!(Fence::of(&object.metadata), Some(stage.mark(token).parse().unwrap()));
    let passed = all(second).len();
    passes(second, passed / Kind::ALL.len() + 3).await;
}

/// Waits until the policy has accepted this many writes of each kind.
async fn passes(process: &Process, times: usize) {
    let passed = |kind| all(process).iter().filter(|write| write.kind == kind && !is_refused(write)).count() >= times;
    let all_passed = async || Kind::ALL.into_iter().all(passed).then_some(());
    until(&format!("{times} writes of each kind pass"), || log(process), all_passed).await;
}

fn is_refused(write: &Write) -> bool {
    write.refused.as_ref().is_some_and(|refused| refused.contains("fenced-by-my-component"))
}

fn all(process: &Process) -> Vec<Write> {
    writes(&log(process))
}

fn log(process: &Process) -> String {
    std::fs::read_to_string(process.log()).unwrap()
}
