//! Mistakes on the command line, and their error messages.

use std::net::TcpListener;
use std::process::{Command, Output};

use hustings_controlplane::shared;

use super::support::binary;

fn hustings(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(binary()).args(arguments).envs(environment.iter().copied()).output().unwrap()
}

#[test]
fn every_wrong_flag_is_named_at_once_with_exit_code_2_and_a_hint() {
    let arguments =
        ["controller", "--settling=-1s", "--admin-address=nowhere", "--leader-elect-renew-deadline=soon", "-n", "a.b"];
    let output =
        hustings(&arguments, &[("HUSTINGS_WATCH_NAMESPACES", "kube-node-lease"), ("HUSTINGS_LOG_FORMAT", "xml")]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(output.stdout.is_empty());
    for flag in [
        "--settling",
        "--admin-address",
        "--leader-elect-renew-deadline",
        "--namespace",
        "--watch-namespaces",
        "--log-format",
    ] {
        assert!(stderr.contains(&format!("{flag}:")), "{flag} is not named in\n{stderr}");
    }
    assert!(stderr.lines().last().unwrap().starts_with("hint: "), "{stderr}");
}

#[test]
fn a_missing_kubeconfig_is_reported_with_its_cause_and_a_hint() {
    let output = hustings(&["controller", "--kubeconfig", "/nowhere", "--admin-address", "127.0.0.1:0"], &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("/nowhere") && stderr.contains("hint: set --kubeconfig to the path"), "{stderr}");
}

#[tokio::test]
async fn an_admin_port_in_use_is_reported_with_its_address_and_a_hint() {
    let plane = shared().await.unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let kubeconfig = plane.kubeconfig();
    let arguments = [
        "controller",
        "--namespace=default",
        "--admin-address",
        &address,
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
    ];
    let output = hustings(&arguments, &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let expected = format!(
        "error: cannot listen on {address}\n  caused by: Address already in use (os error 98)\n\
         hint: choose another --admin-address\n"
    );
    assert!(stderr.ends_with(&expected), "{stderr}");
}
