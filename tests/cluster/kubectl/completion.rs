//! Completion: by kubectl, and by shells with the scripts of `hustings completion`.

use super::{Programs, succeed};
use crate::acts::Scene;
use crate::controller::support::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_and_bash_complete_commands_flags_and_the_names_of_leases_and_candidates() {
    let scene = Scene::new("kubectl-completion", &[("web-0", "1.31.0")]).await;
    let programs = Programs::new(&scene).await;
    let script = succeed(&programs.kubectl(&scene, &["hustings", "completion", "kubectl"]).await);
    programs.add("kubectl_complete-hustings", script.as_bytes());
    for (words, expected) in [
        (&["hustings", "stat"][..], "status\tShow who leads"),
        (&["hustings", "status", "--all"], "--all-namespaces\tShow the Leases of all namespaces"),
        (&["hustings", "status", "w"], "web\theld by web-0"),
        (&["hustings", "transfer", "web", "--to", ""], "web-0\tstands for web (Holder)"),
        (&["hustings", "exclude", "web"], "web-0\tstands for web (Holder)"),
        (&["hustings", "status", "--namespace", "kube-s"], "kube-system"),
    ] {
        // What the scripts of kubectl's own completion run. Names that a busy cluster gives too late are left out.
        let complete = [&["__complete"], words].concat();
        eventually(&format!("{words:?} are completed"), async || {
            let completed = succeed(&programs.kubectl(&scene, &complete).await);
            if completed.lines().any(|line| line.starts_with(expected)) { Ok(()) } else { Err(completed) }
        })
        .await;
    }
    let nowhere = ["__complete", "hustings", "status", "--context", "nowhere", "w"];
    assert_eq!(succeed(&programs.kubectl(&scene, &nowhere).await), ":4\n", "no cluster, no names");

    // bash with the script of the command.
    for (line, word, expected) in [
        ("hustings stat", "stat", "status"),
        ("hustings status w", "w", "web"),
        ("hustings status -o js", "js", "json"),
    ] {
        let words = line.split(' ').count();
        let script = format!(
            "source <(hustings completion bash)\n\
             COMP_WORDS=({line}); COMP_CWORD={}; COMP_TYPE=9\n\
             _clap_complete_hustings hustings {word} ''\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words - 1
        );
        eventually(&format!("{line:?} is completed"), async || {
            let output = programs.command(&scene, "/bin/bash").args(["-c", &script]).output().await.unwrap();
            if succeed(&output).lines().any(|line| line == expected) { Ok(()) } else { Err(output) }
        })
        .await;
    }
}
