//! The environment of the command.

use std::fs;
use std::path::{Path, PathBuf};

use hustings_controlplane::shared;

use super::support::{RENEW_DEADLINE_SECONDS, Wrapper, now, shell, worker};
use crate::replica::{lease, token, until};

#[tokio::test]
async fn command_finds_its_term_in_the_environment_and_its_validity_in_a_file() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("environment").await.unwrap();
    let mut command =
        super::support::command(&plane.kubeconfig(), &namespace, "one", &super::support::DIRECT, worker(&[]));
    command.env_remove("TMPDIR");
    let one = Wrapper::spawn(&plane, &namespace, "one", command);
    let environment = one.says("begins", 0).await["environment"].clone();
    let held = lease(&plane, &namespace, "work").await;
    assert_eq!(environment["LEADER_LEASE"], format!("{namespace}/work"));
    assert_eq!(environment["LEADER_IDENTITY"], "one");
    assert_eq!(environment["LEADER_TERM"], held["spec"]["leaseTransitions"].to_string());
    assert_eq!(environment["LEADER_TOKEN"], token(&held));

    let path = PathBuf::from(environment["LEADER_VALID_UNTIL_FILE"].as_str().unwrap());
    assert!(path.starts_with("/dev/shm"), "{} may be on a busy disk", path.display());
    let first = numbers(&path);
    let renewed = async || (numbers(&path)[0] > first[0]).then_some(());
    until("the file is renewed", || one.log(), renewed).await;
    let [boottime, wall] = numbers(&path);
    let uptime = fs::read_to_string("/proc/uptime").unwrap();
    let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    let possible = 0.0..RENEW_DEADLINE_SECONDS + 0.1;
    assert!(possible.contains(&(boottime - uptime)), "{boottime} {uptime}");
    assert!(possible.contains(&(wall - now())), "{wall}");

    assert_eq!(one.process.stop().await.unwrap().code(), Some(5), "{}", one.log());
    assert!(!path.parent().unwrap().exists());
}

/// The lines of the guide.
#[tokio::test]
async fn a_shell_can_check_whether_its_term_is_still_valid() {
    let guide = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guides/wrapper.md")).unwrap();
    let function = guide.split("```sh\n").find_map(|part| part.strip_prefix("still_leading")).unwrap();
    let function = format!("still_leading{}", function.split("```").next().unwrap());
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("shell").await.unwrap();
    let script = format!(
        "{function}\nstill_leading && echo valid; echo '1.000000 1.000000' > stale; \
                          LEADER_VALID_UNTIL_FILE=stale; still_leading || echo over"
    );
    let folder = plane.folder().join(&namespace);
    fs::create_dir(&folder).unwrap();
    let mut command =
        super::support::command(&plane.kubeconfig(), &namespace, "one", &super::support::DIRECT, shell(&script));
    command.current_dir(folder);
    let one = Wrapper::spawn(&plane, &namespace, "one", command);
    assert_eq!(one.exit_code().await, Some(0), "{}", one.log());
    let said: Vec<_> = one.log().lines().filter(|line| ["valid", "over"].contains(line)).map(str::to_owned).collect();
    assert_eq!(said, ["valid", "over"], "{}", one.log());
}

fn numbers(path: &Path) -> [f64; 2] {
    let text = fs::read_to_string(path).unwrap();
    let numbers: Vec<f64> = text.trim_end().split(' ').map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}
