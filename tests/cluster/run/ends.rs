//! A command that ends by itself: what the wrapper does, and what happens to the Lease.

use hustings_controlplane::shared;

use super::support::{Wrapper, children, command, holder, lives, number, shell, time, worker};
use crate::replica::{lease, token, until};

#[tokio::test]
async fn after_any_death_of_the_command_another_replica_leads_before_the_lease_expires() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("killed").await.unwrap();
    // Longer than any wait in this test.
    let start = |name: &str| {
        let flags = ["--direct", "--lease-duration=300s", "--restart=always"];
        Wrapper::spawn(&plane, &namespace, name, command(&plane.kubeconfig(), &namespace, name, &flags, worker(&[])))
    };
    let one = start("one");
    let begins = one.says("begins", 0).await;
    let two = start("two");
    two.logs("standing").await;
    super::support::signal(number(&begins["pid"]), "KILL");
    let succeeds = async || {
        // If the first stands again before the second claims, the first leads.
        let begun = one.lines().into_iter().filter(|line| line["event"] == "begins").skip(1);
        let again = begun.map(|line| number(&line["pid"])).filter(|pid| lives(*pid));
        again.for_each(|pid| super::support::signal(pid, "KILL"));
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
async fn orphans_are_reaped() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("orphans").await.unwrap();
    // Each inner shell ends at once. Its child ends a moment later, without a parent.
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
async fn command_is_restarted_by_its_policy_each_time_in_a_new_term() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("policy").await.unwrap();
    let folder = plane.folder().join(&namespace);
    std::fs::create_dir(&folder).unwrap();
    // It fails twice, and succeeds the third time.
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
