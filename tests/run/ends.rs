//! How a command ends by itself, and what becomes of the Lease and of the wrapper.

use hustings_controlplane::shared;

use crate::replica::{lease, token, until};
use crate::support::{Wrapper, children, command, holder, lives, number, shell, time, worker};

#[tokio::test]
async fn wrapper_ends_with_the_commands_own_code_and_has_released_the_lease_at_once() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("own-code").await.unwrap();
    for (script, code) in [("exit 7", 7), ("exit 0", 0), ("kill -KILL $$", 137), ("kill -SEGV $$", 139)] {
        let one = Wrapper::start(&plane, &namespace, "one", &[], shell(script));
        assert_eq!(one.exit_code().await, Some(code), "{script}\n{}", one.log());
        let left = lease(&plane, &namespace, "work").await;
        // Open to whoever comes next, and not only without a name.
        assert_eq!(left["metadata"]["annotations"]["hustings.io/session"], "open", "{script}\n{left}\n{}", one.log());
        assert_eq!(left["spec"]["holderIdentity"].as_str().unwrap_or_default(), "", "{script}\n{left}");
    }
}

#[tokio::test]
async fn whatever_kills_the_command_the_next_replica_leads_before_the_lease_could_run_out() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("killed").await.unwrap();
    // Longer than anything here is waited for.
    let start = |name: &str| {
        let flags = ["--direct", "--lease-duration=300s", "--restart=always"];
        Wrapper::spawn(&plane, &namespace, name, command(&plane.kubeconfig(), &namespace, name, &flags, worker(&[])))
    };
    let one = start("one");
    let begins = one.says("begins", 0).await;
    let two = start("two");
    two.logs("standing").await;
    crate::support::signal(number(&begins["pid"]), "KILL");
    let succeeds = async || {
        // Should the first stand again before the second has claimed, it is the first that leads.
        let begun = one.lines().into_iter().filter(|line| line["event"] == "begins").skip(1);
        let again = begun.map(|line| number(&line["pid"])).filter(|pid| lives(*pid));
        again.for_each(|pid| crate::support::signal(pid, "KILL"));
        two.lines().into_iter().find(|line| line["event"] == "begins")
    };
    let succeeds = until("the second begins", || two.log(), succeeds).await;
    assert!(one.last_alive() < time(&succeeds), "{}\n{}", one.log(), two.log());
    // And the first stands again.
    let former = one.lines().iter().filter(|line| line["event"] == "begins").count();
    two.process.stop().await.unwrap();
    one.says("begins", former).await;
}

#[tokio::test]
async fn what_the_command_leaves_behind_is_killed_before_the_lease_is_released() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("left").await.unwrap();
    let one = Wrapper::start(&plane, &namespace, "one", &[], worker(&["fork"]));
    let begins = one.says("begins", 0).await;
    let forked = [one.says("forked", 0).await, one.says("forked", 1).await].map(|line| number(&line["child"]));
    assert!(forked.iter().all(|pid| crate::support::lives(*pid)));
    crate::support::signal(number(&begins["pid"]), "KILL");
    let ended = async || forked.iter().all(|pid| !crate::support::lives(*pid)).then_some(());
    until("nothing is left", || one.log(), ended).await;
    assert_eq!(one.exit_code().await, Some(137), "{}", one.log());
}

#[tokio::test]
async fn orphans_are_reaped() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("orphans").await.unwrap();
    // Each inner shell ends at once, and what it has started a moment later, without a parent.
    let script = "for n in 1 2 3 4 5; do sh -c 'sleep 0.1 & setsid sleep 0.1 &'; done; echo over; sleep 60";
    let one = Wrapper::start(&plane, &namespace, "one", &[], shell(script));
    let over = async || one.log().lines().any(|line| line == "over").then_some(());
    until("all have been left", || one.log(), over).await;
    let only = async || {
        let children = children(one.process.pid());
        (children.len() == 2 && children.iter().all(|(_, state, _)| *state != 'Z')).then_some(())
    };
    until("the command and the guardian are left", || format!("{:?}", children(one.process.pid())), only).await;
}

#[tokio::test]
async fn command_is_started_again_as_its_policy_says_each_time_in_a_term_of_its_own() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("policy").await.unwrap();
    let folder = plane.folder().join(&namespace);
    std::fs::create_dir(&folder).unwrap();
    // It fails twice, and the third time it does not.
    let script = format!(
        "cat $LEADER_VALID_UNTIL_FILE && echo $LEADER_TOKEN >> {0}/runs; [ $(wc -l < {0}/runs) -ge 3 ]",
        folder.display()
    );
    let one = Wrapper::start(&plane, &namespace, "one", &["--restart=on-failure"], shell(&script));
    assert_eq!(one.exit_code().await, Some(0), "{}", one.log());
    let tokens: Vec<u64> =
        std::fs::read_to_string(folder.join("runs")).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(tokens.len(), 3, "{}", one.log());
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    assert_eq!(token(&lease(&plane, &namespace, "work").await), tokens[2].to_string());

    let two = Wrapper::start(&plane, &namespace, "two", &["--restart=always"], shell("echo ran"));
    let twice = async || (two.log().matches("ended and will be started again").count() >= 2).then_some(());
    until("it runs twice", || two.log(), twice).await;
    assert!(two.log().lines().filter(|line| *line == "ran").count() >= 2, "{}", two.log());
    // While it waits it holds nothing.
    assert_eq!(two.process.stop().await.unwrap().code(), Some(0), "{}", two.log());
    assert_eq!(holder(&plane, &namespace).await, "");
}

#[tokio::test]
async fn command_that_turns_out_to_be_none_is_not_tried_again() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("none").await.unwrap();
    let file = plane.folder().join(format!("{namespace}-program"));
    std::fs::write(&file, "#!/nowhere/interpreter\n").unwrap();
    std::process::Command::new("chmod").arg("+x").arg(&file).status().unwrap();
    let program = vec![file.to_str().unwrap().to_owned()];
    let one = Wrapper::start(&plane, &namespace, "one", &["--restart=always"], program);
    assert_eq!(one.exit_code().await, Some(127), "{}", one.log());
    assert!(one.log().contains(": No such file"), "{}", one.log());
    assert_eq!(holder(&plane, &namespace).await, "");
}
