//! Tests that need no cluster: help, and invalid commands and bounds.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::replica::hustings;

const STANDS: [&str; 4] = ["run", "--lease=l", "--identity=a", "--direct"];

#[test]
fn command_that_cannot_be_started_is_rejected_before_any_request() {
    for (command, code, message) in [
        ("no-such-program", 127, "program no-such-program was not found"),
        ("/nowhere/program", 127, "program /nowhere/program was not found"),
        (concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), 126, "is not executable"),
    ] {
        let output = hustings().args(STANDS).args(["--kubeconfig=/nowhere", "--", command]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(&format!("{message}\nhint: pass ")), "{}", said(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn wrong_flags_are_named_at_once_with_exit_code_2() {
    let flags =
        ["--stop-signal=STOP", "--stop-grace=soon", "--lost-grace=5", "--restart=sometimes", "--retry-period=-1s"];
    let rules = ["--retry-period=0s"];
    for (flags, command, named) in [
        (&flags[..], "true", &["--stop-signal", "--stop-grace", "--lost-grace", "--restart", "--retry-period"][..]),
        (&rules, "", &["--retry-period", "COMMAND"]),
    ] {
        let output = hustings().args(STANDS).args(flags).args(["--", command]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        for flag in named {
            assert!(said(&output).contains(&format!("\n  {flag}: ")), "{flag} is not named in\n{}", said(&output));
        }
    }
    let output = hustings().args(STANDS).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("COMMAND"), "{}", said(&output));
}

#[test]
fn bounds_that_would_let_two_commands_run_are_refused() {
    for (flags, refused) in [
        (
            &["--lost-grace=4500ms"][..],
            "--lost-grace: 4.5s is longer than 4.47s, the time that the renew deadline leaves",
        ),
        (&["--renew-deadline=14600ms"], "--renew-deadline: 14.6s leaves no time to kill the command"),
    ] {
        let output = hustings().args(STANDS).args(flags).args(["--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(refused), "{refused:?} is not in\n{}", said(&output));
    }
}

#[test]
fn unreachable_cluster_ends_it_with_exit_code_1_and_the_command_is_not_started() {
    let output = hustings().args(STANDS).args(["--kubeconfig=/nowhere", "--", "echo", "started"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("error: cannot load the cluster configuration\n"), "{}", said(&output));
    assert_eq!(said(&output).matches("No such file").count(), 1, "each cause is reported once: {}", said(&output));
    assert!(said(&output).lines().last().unwrap().starts_with("hint: "), "{}", said(&output));
    assert!(output.stdout.is_empty());
}

#[test]
fn without_an_election_the_command_runs_at_once_and_no_cluster_is_needed() {
    let script = "echo $LEADER_LEASE $LEADER_TERM $LEADER_TOKEN; exit 4";
    let flags = ["--leader-elect=false", "--kubeconfig=/nowhere", "--", "sh", "-c", script];
    let output = hustings().args(STANDS).args(flags).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "default/l 1 1\n", "{}", said(&output));
}

#[test]
fn help_lists_the_exit_codes_and_hides_what_is_not_for_people() {
    let help = |arguments: &[&str]| String::from_utf8(hustings().args(arguments).output().unwrap().stdout).unwrap();
    let run = help(&["run", "--help"]);
    for text in ["-- <COMMAND>", "--stop-grace", "--lost-grace", "HUSTINGS_RESTART", "Exit codes:", "79", "126", "127"]
    {
        assert!(run.contains(text), "{text} is not in\n{run}");
    }
    let all = help(&["--help"]);
    assert!(!all.contains("guardian") && !all.contains("wrapped"), "{all}");
}

#[test]
fn binary_replaces_files_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("device");
    let _socket = UnixListener::bind(&device).unwrap();
    let output = hustings().arg("copy-binary").arg(&device).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let message = format!("error: cannot write {}\n  caused by: it is not a regular file\nhint: ", device.display());
    assert!(said(&output).starts_with(&message), "{}", said(&output));
    assert!(!device.symlink_metadata().unwrap().is_file());
}

#[test]
fn binary_installs_itself_over_a_former_one_that_runs() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("copy-binary-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let binary = folder.join("hustings");
    for (path, code) in [(&folder, 0), (&binary, 0), (&folder.join("nowhere/hustings"), 1)] {
        let mut running = binary
            .exists()
            .then(|| Command::new(&binary).arg("guardian").arg("/nowhere").stdin(Stdio::piped()).spawn().unwrap());
        let output = hustings().arg("copy-binary").arg(path).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert_eq!(said(&output).contains("\nhint: "), code == 1, "{}", said(&output));
        if let Some(running) = &mut running {
            drop(running.stdin.take());
            running.wait().unwrap();
        }
    }
    let version = |mut command: Command| command.arg("--version").output().unwrap().stdout;
    assert_eq!(version(Command::new(&binary)), version(hustings()));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    fs::remove_dir_all(folder).unwrap();
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
