//! The signals with which images ask to be stopped (`STOPSIGNAL`).

use hustings_controlplane::shared;

use super::support::{Wrapper, children, command, in_namespaces, number, signal, worker};
use crate::replica::until;

/// A value of `--stop-on`, and the signal.
const SIGNALS: [(&str, &str); 8] = [
    ("USR1", "USR1"),
    ("SIGWINCH", "WINCH"),
    ("RTMIN+3", "37"),
    ("37", "37"),
    ("QUIT,PWR", "PWR"),
    ("SIGQUIT", "QUIT"),
    ("1", "HUP"),
    ("int", "INT"),
];

#[tokio::test]
async fn stop_signal_of_an_image_stops_the_wrapper_for_good_also_as_process_1() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("stop-signals").await.unwrap();
    for (index, (value, name)) in SIGNALS.into_iter().enumerate() {
        for is_first in [false, true] {
            let stop_on = format!("--stop-on={value}");
            let flags = ["--leader-elect=false", "--restart=always", &stop_on];
            let run = command(&plane.kubeconfig(), &namespace, "one", &flags, worker(&[]));
            let name_of_log = format!("one-{index}-{is_first}");
            let one = if is_first {
                let Some(mut contained) = in_namespaces(&["--mount-proc"]) else { return };
                contained.arg(run.get_program()).args(run.get_args());
                Wrapper::spawn(&plane, &namespace, &name_of_log, contained)
            } else {
                Wrapper::spawn(&plane, &namespace, &name_of_log, run)
            };
            one.says("begins", 0).await;
            let wrapper = if is_first { children(one.process.pid())[0].0 } else { one.process.pid() };
            signal(wrapper, name);
            // The command's own exit code after its stop signal.
            assert_eq!(one.exit_code().await, Some(5), "{value}: {}", one.log());
            let received: Vec<_> = one.lines().into_iter().filter(|line| line["event"] == "received").collect();
            assert_eq!(received.len(), 1, "{value}: {received:?}");
            assert_eq!(received[0]["signal"], "SIGTERM", "{value}");
        }
    }
}

#[tokio::test]
async fn standby_wrapper_stops_on_its_stop_signal_and_the_command_gets_its_own() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("stop-on").await.unwrap();
    let flags = ["--stop-on=USR1,RTMIN+3", "--stop-signal=SIGUSR2"];
    let one = Wrapper::start(&plane, &namespace, "one", &flags, worker(&[]));
    let begins = one.says("begins", 0).await;
    let two = Wrapper::start(&plane, &namespace, "two", &flags, worker(&[]));
    two.logs("standing").await;
    two.signal("37");
    assert_eq!(two.exit_code().await, Some(0), "{}", two.log());
    // The wrapper forwards other signals as before.
    one.signal("HUP");
    assert_eq!(one.says("received", 0).await["signal"], "SIGHUP");
    one.signal("USR1");
    assert_eq!(one.says("received", 1).await["signal"], "SIGUSR2", "{}", one.log());
    // The worker reports this signal and goes on, as it does with every signal but its usual ones.
    one.signal("USR1");
    assert_eq!(one.says("received", 2).await["signal"], "SIGUSR2", "{}", one.log());
    signal(number(&begins["pid"]), "TERM");
    let ended = async || one.process.exit_status().unwrap().map(drop);
    until("it ends with its command", || one.log(), ended).await;
}
