//! Voluntary ends: a hand-over, and a wrapper that gets a stop signal.

use hustings_controlplane::{PATIENCE, shared};

use super::support::{LEASE_DURATION, Wrapper, children, holder, number, prefer, shell, time, worker};
use crate::replica::{lease, until};

#[tokio::test]
async fn hand_over_waits_for_a_command_that_stops_slowly_while_the_lease_is_renewed() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("hand-over").await.unwrap();
    // Slower than the lease duration.
    let one = Wrapper::start(&plane, &namespace, "one", &["--stop-grace=60s"], worker(&["slow", "23"]));
    one.says("begins", 0).await;
    let two = Wrapper::start(&plane, &namespace, "two", &[], worker(&[]));
    two.logs("standing").await;
    prefer(&plane, &namespace, "two").await;
    let received = one.says("received", 0).await;
    assert_eq!(received["signal"], "SIGTERM");
    let before = lease(&plane, &namespace, "work").await;
    let renewed = async || {
        let lease = lease(&plane, &namespace, "work").await;
        (lease["spec"]["renewTime"] != before["spec"]["renewTime"]).then_some(lease)
    };
    assert_eq!(until("it is renewed", || one.log(), renewed).await["spec"]["holderIdentity"], "one");
    let begins = two.says("begins", 0).await;
    let ends = one.says("ends", 0).await;
    assert!(time(&ends) - time(&received) > LEASE_DURATION.as_secs_f64(), "it was stopped for longer than the Lease");
    assert!(time(&ends) <= time(&begins), "{}\n{}", one.log(), two.log());
    let gap = time(&begins) - time(&ends);
    assert!(gap < LEASE_DURATION.as_secs_f64() - 1.0, "handed over, not expired\n{}\n{}", one.log(), two.log());

    // The first stands by, and leads next.
    prefer(&plane, &namespace, "one").await;
    one.says("begins", 1).await;
}

#[tokio::test]
async fn command_that_ignores_its_stop_is_killed_at_the_bound_and_only_then_is_the_lease_released() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("stubborn").await.unwrap();
    let one = Wrapper::start(&plane, &namespace, "one", &["--stop-grace=10s"], worker(&["ignore"]));
    one.says("begins", 0).await;
    let two = Wrapper::start(&plane, &namespace, "two", &[], worker(&[]));
    two.logs("standing").await;
    one.signal("TERM");
    let received = one.says("received", 0).await;
    assert_eq!(holder(&plane, &namespace).await, "one");
    assert_eq!(one.exit_code().await, Some(137), "{}", one.log());
    let begins = two.says("begins", 0).await;
    let stubborn = one.last_alive() - time(&received);
    assert!((5.0..25.0).contains(&stubborn), "{stubborn} s\n{}", one.log());
    assert!(one.last_alive() <= time(&begins), "{}\n{}", one.log(), two.log());
    assert!(one.log().contains("did not stop in time"), "{}", one.log());
}

#[tokio::test]
async fn signals_reach_the_whole_group_and_a_chosen_one_stops_it() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("signals").await.unwrap();
    // Two workers. Both are in the shell's group, and the shell waits for one.
    let worker = worker(&[]).join(" ");
    let script = format!("trap '' HUP USR1 USR2 QUIT TTIN WINCH; trap : INT; {worker} & exec {worker}");
    let one = Wrapper::start(&plane, &namespace, "one", &["--stop-signal=INT"], shell(&script));
    one.says("begins", 1).await;
    for (index, name) in ["HUP", "USR1", "USR2", "QUIT", "TTIN", "WINCH"].into_iter().enumerate() {
        one.signal(name);
        let received = [one.says("received", 2 * index).await, one.says("received", 2 * index + 1).await];
        assert!(received.iter().all(|line| line["signal"] == format!("SIG{name}").as_str()), "{received:?}");
        assert_ne!(received[0]["pid"], received[1]["pid"]);
    }
    one.signal("TERM");
    // The command's own exit code.
    assert_eq!(one.exit_code().await, Some(5), "{}", one.log());
    let last = one.lines().into_iter().rfind(|line| line["event"] == "received").unwrap();
    assert_eq!(last["signal"], "SIGINT", "{}", one.log());
}

#[tokio::test]
async fn command_that_ends_during_a_stop_gives_its_exit_code_under_any_restart_policy() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("both-stopped").await.unwrap();
    // The wrapper observes both at once when it resumes.
    let script = "kill -s STOP $PPID; kill -s INT $PPID; exit 5";
    let one = Wrapper::start(&plane, &namespace, "one", &["--restart=always"], shell(script));
    let ended = || children(one.process.pid()).iter().any(|(_, state, _)| *state == 'Z');
    until("the command has ended", || one.log(), async || ended().then_some(())).await;
    one.process.resume().unwrap();
    assert_eq!(one.exit_code().await, Some(5), "{}", one.log());
    assert_eq!(holder(&plane, &namespace).await, "");
}

#[tokio::test]
async fn standby_wrapper_stops_at_once_with_exit_code_0() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("waits").await.unwrap();
    let one = Wrapper::start(&plane, &namespace, "one", &[], worker(&[]));
    one.says("begins", 0).await;
    for name in ["TERM", "INT", "QUIT"] {
        let two = Wrapper::start(&plane, &namespace, &format!("two-{}", name.to_lowercase()), &[], worker(&[]));
        two.logs("standing").await;
        // The wrapper ignores signals for a command while none runs.
        two.signal("HUP");
        two.signal("USR1");
        two.signal(name);
        let ended = tokio::time::timeout(PATIENCE, two.exit_code()).await;
        assert_eq!(ended.unwrap(), Some(0), "{}", two.log());
        assert!(two.lines().is_empty());
    }
    assert_eq!(holder(&plane, &namespace).await, "one");
    assert!(super::support::lives(number(&one.says("begins", 0).await["pid"])));
}
