//! `hustings copy-binary`, by which an init container installs the wrapper.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::replica::hustings;

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
