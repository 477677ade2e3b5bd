//! The wrapper's admin server: health, metrics, and the time range.

use std::net::SocketAddr;

use hustings_controlplane::{ControlPlane, shared};

use super::support::{Wrapper, shell, worker};
use crate::http::ask;
use crate::replica::{lease, logged_address, token, until};

const ASKED: [&str; 2] = ["--admin-address=127.0.0.1:0", "--log-format=json"];

#[tokio::test]
async fn holder_and_standby_report_liveness_readiness_and_the_leader() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("admin").await.unwrap();
    let (one, one_admin) = start(&plane, &namespace, "one", &[], worker(&[])).await;
    one.says("begins", 0).await;
    let (two, two_admin) = start(&plane, &namespace, "two", &[], worker(&[])).await;
    for admin in [one_admin, two_admin] {
        for (path, code) in [("/livez", 200), ("/readyz", 200), ("/leader", 404)] {
            let answers = async || (ask(admin, "GET", path).await.code == code).then_some(());
            until(&format!("{path} answers {code}"), || format!("{}\n{}", one.log(), two.log()), answers).await;
        }
        let metrics = ask(admin, "GET", "/metrics").await;
        let held = metrics.body.lines().find(|line| line.starts_with("hustings_lease_held{"));
        let value = if admin == one_admin { " 1" } else { " 0" };
        assert!(held.is_some_and(|held| held.contains("/work\"") && held.ends_with(value)), "{metrics:?}");
    }
    let leads = ask(one_admin, "GET", "/isleader").await;
    let held = lease(&plane, &namespace, "work").await;
    assert_eq!((leads.code, leads.json()["token"].to_string().as_str()), (200, token(&held)), "{leads:?}\n{held}");
    let stands = ask(two_admin, "GET", "/isleader").await;
    assert_eq!((stands.code, &stands.json()["identity"]), (503, &"two".into()), "{stands:?}");

    one.process.stop().await.unwrap();
    two.says("begins", 0).await;
    assert_eq!(ask(two_admin, "GET", "/isleader").await.code, 200, "{}", two.log());
}

#[tokio::test]
async fn wrapper_that_waits_to_restart_its_command_is_not_ready_meanwhile() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("not-ready").await.unwrap();
    let (one, admin) = start(&plane, &namespace, "one", &["--restart=always"], shell("sleep 1")).await;
    for _ in 0..2 {
        for code in [200, 503] {
            let answers = async || Some(ask(admin, "GET", "/readyz").await).filter(|answer| answer.code == code);
            let answer = until(&format!("it answers {code}"), || one.log(), answers).await;
            assert_eq!(answer.body, if code == 200 { "ok\n" } else { "not ready: elector\n" });
        }
    }
}

/// A wrapper and the address of its admin server.
async fn start(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    flags: &[&str],
    wrapped: Vec<String>,
) -> (Wrapper, SocketAddr) {
    let one = Wrapper::start(plane, namespace, name, &[&ASKED, flags].concat(), wrapped);
    let listens = async || logged_address(&one.log(), "the admin server listens");
    let admin = until("it listens", || one.log(), listens).await;
    (one, admin)
}
