//! How the sidecar starts, or fails to start.

use std::net::TcpListener;
use std::process::Output;

use hustings_controlplane::{by_env, shared};
use rustix::process::Signal;

use super::beside::{DIRECT, Sidecar, command};
use crate::replica::{hustings, lease, until};

fn said(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn every_wrong_flag_is_named_at_once_with_exit_code_2() {
    for (flags, refused) in [
        (&["--listen=4040"][..], r#"--listen: "4040" is not an address: use :PORT or HOST:PORT"#),
        (&["--admin-address=a b:1"], r#"--admin-address: "a b:1" is not an address"#),
        (&["--pod-label=leader"], r#"--pod-label: "leader" is not of the form KEY=VALUE"#),
        (&["--pod-label=A.b/c=d"], r#"--pod-label: "A.b" is not a valid label prefix"#),
        (&["--pod-label=a=-"], r#"--pod-label: "-" is not a valid label value"#),
        (&["--pod-label=a=b"], "--pod-label: needs POD_NAME in the environment"),
        (&["--handover-delay=21s"], r#"--handover-delay: "21s" is longer than 20s"#),
        (&["--handover-delay=soon"], r#"--handover-delay: "soon" is not a duration"#),
        (&["--while-connected", "--handover-delay=1s"], "--handover-delay: has no effect with --while-connected"),
        (&["--lease-duration=1500ms"], "--lease-duration: "),
        (&["--listen=x", "--handover-delay=-1s"], "--handover-delay: \"-1s\" is negative"),
    ] {
        let mut sidecar = hustings();
        sidecar.args(["sidecar", "--lease=l", "--identity=a", "--direct", "--kubeconfig=/nowhere"]).args(flags);
        let output = sidecar.env_remove("POD_NAME").output().unwrap();
        let stderr = said(&output);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(&format!("\n  {refused}")), "{refused:?} is not in\n{stderr}");
        assert!(stderr.lines().last().unwrap().starts_with("hint: "), "{stderr}");
    }
    let output = hustings().args(["sidecar", "--lease=l", "--identity=a"]).output().unwrap();
    assert!(said(&output).contains("--binary-version: is required unless --direct is given"), "{}", said(&output));
}

#[test]
fn an_unreachable_cluster_is_reported_with_exit_code_1() {
    let listen = ["--listen=127.0.0.1:0", "--admin-address=127.0.0.1:0"];
    for stands in ["--direct", "--binary-version=1.2.0"] {
        let mut sidecar = hustings();
        sidecar.args(["sidecar", "--lease=l", "--identity=a", "--kubeconfig=/nowhere", stands]).args(listen);
        let output = sidecar.output().unwrap();
        let stderr = said(&output);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("error: cannot load the cluster configuration\n"), "{stderr}");
        assert!(stderr.lines().last().unwrap().starts_with("hint: "), "{stderr}");
    }
}

#[tokio::test]
async fn a_port_in_use_is_reported_before_the_replica_stands() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("ports").await.unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for flag in ["listen", "admin-address"] {
        let taken = format!("--{flag}={address}");
        let flags = [&DIRECT[..], &[&taken]].concat();
        let output = command(&plane.kubeconfig(), &namespace, "one", &flags).output().unwrap();
        let stderr = said(&output);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(&format!("error: cannot listen on {address}\n")), "{stderr}");
        assert!(stderr.contains("  caused by: Address already in use"), "{stderr}");
        assert!(stderr.contains(&format!("\nhint: choose another --{flag}\n")), "{stderr}");
    }
    assert!(lease(&plane, &namespace, "work").await.is_null(), "no replica has stood");
}

#[tokio::test]
async fn a_closed_terminal_stops_it_gracefully() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("hang-up").await.unwrap();
    let sidecar = command(&plane.kubeconfig(), &namespace, "one", &DIRECT);
    let one = Sidecar::run(&plane, &namespace, "one", by_env("--default-signal=HUP", &sidecar)).await;
    one.leads().await;
    one.process.signal(Signal::HUP).unwrap();
    let ended = async || one.process.exit_status().unwrap();
    assert_eq!(until("it ends", || one.log(), ended).await.code(), Some(0), "{}", one.log());
    assert_eq!(lease(&plane, &namespace, "work").await["spec"]["holderIdentity"], "", "{}", one.log());
}

#[tokio::test]
async fn listening_on_more_than_the_loopback_address_logs_a_warning() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("open").await.unwrap();
    let open = Sidecar::start(&plane, &namespace, "open", &[&DIRECT[..], &["--listen=:0"]].concat()).await;
    let closed = Sidecar::start(&plane, &namespace, "closed", &DIRECT).await;
    assert!(open.log().contains("--listen is not a loopback address"), "{}", open.log());
    assert!(!closed.log().contains("--listen is not a loopback address"), "{}", closed.log());
}
