//! Ends that nobody asked for: a wrapper that dies or stands still, and an API server that does not answer.

use std::time::Duration;

use hustings_controlplane::{ControlPlane, shared};

use crate::replica::until;
use crate::support::{LEASE_DURATION, Wrapper, children, lives, now, number, time, worker};

#[tokio::test]
async fn when_the_wrapper_is_killed_the_commands_whole_group_dies_with_it() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("killed-wrapper").await.unwrap();
    let one = Wrapper::start(&plane, &namespace, "one", &[], worker(&["fork"]));
    let begins = one.says("begins", 0).await;
    // The first one stays in the group.
    let forked = number(&one.says("forked", 0).await["child"]);
    let daemon = number(&one.says("forked", 1).await["child"]);
    let folder = begins["environment"]["LEADER_VALID_UNTIL_FILE"].as_str().unwrap().to_owned();
    let two = Wrapper::start(&plane, &namespace, "two", &[], worker(&[]));
    two.logs("standing").await;
    one.process.kill().unwrap();
    let dead = async || (!lives(number(&begins["pid"])) && !lives(forked)).then_some(());
    tokio::time::timeout(Duration::from_secs(3), until("the group is dead", || one.log(), dead)).await.unwrap();
    let begins = two.says("begins", 0).await;
    assert!(one.last_alive() < time(&begins), "{}\n{}", one.log(), two.log());
    assert!(!std::path::Path::new(&folder).parent().unwrap().exists(), "the guardian has cleared {folder} away");
    // What has left the group is out of reach then, as the guide says.
    crate::support::signal(daemon, "KILL");
}

#[tokio::test]
async fn when_the_guardian_is_gone_too_the_command_dies_with_the_wrapper() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("both-killed").await.unwrap();
    let one = Wrapper::start(&plane, &namespace, "one", &[], worker(&[]));
    let command = number(&one.says("begins", 0).await["pid"]);
    // Before it is started again with the next renewal.
    crate::support::signal(guardian(&one), "KILL");
    one.process.kill().unwrap();
    let dead = async || (!lives(command)).then_some(());
    tokio::time::timeout(Duration::from_secs(3), until("it is dead", || one.log(), dead)).await.unwrap();
}

#[tokio::test]
async fn guardian_that_is_gone_is_replaced_with_the_next_renewal() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("guardian").await.unwrap();
    let one = Wrapper::start(&plane, &namespace, "one", &[], worker(&["ignore"]));
    let command = number(&one.says("begins", 0).await["pid"]);
    let first = guardian(&one);
    crate::support::signal(first, "KILL");
    one.logs("started again").await;
    assert_ne!(guardian(&one), first);
    assert!(lives(command));
    // And the new one knows what to do.
    one.process.pause().unwrap();
    let dead = async || (!lives(command)).then_some(());
    until("it is dead", || one.log(), dead).await;
}

#[tokio::test]
async fn command_of_a_frozen_wrapper_is_dead_before_another_leads_and_stands_again_once_thawed() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("frozen").await.unwrap();
    let one = Wrapper::start(&plane, &namespace, "one", &[], worker(&["ignore"]));
    one.says("begins", 0).await;
    let two = Wrapper::start(&plane, &namespace, "two", &[], worker(&[]));
    two.logs("standing").await;
    one.process.pause().unwrap();
    let frozen = now();
    let begins = two.says("begins", 0).await;
    assert!(one.last_alive() < time(&begins), "{}\n{}", one.log(), two.log());
    let went_on = one.last_alive() - frozen;
    assert!(went_on < LEASE_DURATION.as_secs_f64(), "{went_on} s");
    one.process.resume().unwrap();
    one.logs("the command ended").await;
    two.process.stop().await.unwrap();
    let again = one.says("begins", 1).await;
    assert!(two.last_alive() < time(&again), "{}\n{}", one.log(), two.log());
}

#[tokio::test]
async fn when_renewals_fail_the_command_is_dead_before_the_lease_can_be_anothers() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let namespace = plane.create_namespace("outage").await.unwrap();
    let one = Wrapper::start(&plane, &namespace, "one", &[], worker(&["ignore"]));
    one.says("begins", 0).await;
    let paused = now();
    plane.apiserver().pause().unwrap();
    one.logs("the command ended").await;
    let went_on = one.last_alive() - paused;
    // The last renewal was sent at most a jittered retry period and a round trip before the pause.
    assert!((3.0..LEASE_DURATION.as_secs_f64()).contains(&went_on), "{went_on} s\n{}", one.log());
    assert_eq!(one.says("heard", 0).await["signal"], "SIGTERM");
    assert!(one.log().contains("the Lease is lost"), "{}", one.log());
    plane.apiserver().resume().unwrap();
    one.says("begins", 1).await;

    // One that stops when told is not killed; and whoever wants it so ends.
    one.process.kill().unwrap();
    let two = Wrapper::start(&plane, &namespace, "two", &["--exit-on-loss"], worker(&[]));
    two.says("begins", 0).await;
    plane.apiserver().kill().unwrap();
    assert_eq!(two.exit_code().await, Some(79), "{}", two.log());
    two.says("ends", 0).await;
    assert!(!two.log().contains("did not stop in time"), "{}", two.log());
}

fn guardian(wrapper: &Wrapper) -> u32 {
    let children = children(wrapper.process.pid());
    children.iter().find(|(_, _, words)| words.contains(" guardian ")).unwrap_or_else(|| panic!("{children:?}")).0
}
