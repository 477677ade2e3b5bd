//! A wrapper or guardian that cannot list processes must not assume that none is left.

use std::fs;

use hustings_controlplane::{ControlPlane, shared};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::support::{DIRECT, Wrapper, command, guardian, in_namespaces, lives, number, shell, worker};
use crate::replica::{hustings, lease, until};

#[tokio::test]
async fn while_processes_cannot_be_listed_the_lease_is_not_released_and_expires() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("unlisted").await.unwrap();
    let (one, child) = command_that_leaves_a_process(&plane, &namespace).await;
    let two = Wrapper::start(&plane, &namespace, "two", &[], worker(&[]));
    two.logs("standing").await;
    let limited = NoFileDescriptors::new(one.process.pid());
    fs::write(plane.folder().join(&namespace), "").unwrap();
    one.logs("cannot read /proc").await;
    // The wrapper has resigned the term by now, and still does not release the Lease.
    let succeeds = async || {
        let held = lease(&plane, &namespace, "work").await;
        let session = held["metadata"]["annotations"]["hustings.io/session"].as_str().unwrap_or_default().to_owned();
        assert_ne!(session, "open", "{held}\n{}", one.log());
        assert_eq!(one.process.exit_status().unwrap(), None, "{}", one.log());
        (held["spec"]["holderIdentity"] == "two").then_some(())
    };
    until("the Lease expires", || one.log(), succeeds).await;
    // The guardian killed it before the Lease could expire. The wrapper does not know that.
    assert!(!lives(child), "{}", one.log());
    drop(limited);
    assert_eq!(one.exit_code().await, Some(7), "{}", one.log());
}

#[tokio::test]
async fn processes_that_cannot_be_listed_for_a_moment_are_killed_afterwards() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("unlisted-moment").await.unwrap();
    let (one, child) = command_that_leaves_a_process(&plane, &namespace).await;
    let limited = NoFileDescriptors::new(one.process.pid());
    fs::write(plane.folder().join(&namespace), "").unwrap();
    one.logs("the command ended").await;
    drop(limited);
    assert_eq!(one.exit_code().await, Some(7), "{}", one.log());
    assert!(!lives(child), "{}", one.log());
    let left = lease(&plane, &namespace, "work").await;
    assert_eq!(left["metadata"]["annotations"]["hustings.io/session"], "open", "{left}");
}

#[tokio::test]
async fn guardian_that_cannot_list_processes_retries_until_it_can() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("unlisted-guardian").await.unwrap();
    let one = Wrapper::start(&plane, &namespace, "one", &[], worker(&["fork"]));
    one.says("begins", 0).await;
    // The second of them has left the group.
    let forked = [one.says("forked", 0).await, one.says("forked", 1).await].map(|line| number(&line["child"]));
    let limited = NoFileDescriptors::new(guardian(&one));
    let guardian = guardian(&one);
    one.process.kill().unwrap();
    one.logs("cannot read /proc").await;
    assert!(lives(guardian) && lives(forked[1]), "{}", one.log());
    drop(limited);
    let dead = async || (!forked.iter().any(|pid| lives(*pid)) && !lives(guardian)).then_some(());
    until("all are dead", || one.log(), dead).await;
}

#[test]
fn process_that_proc_hides_is_killed_with_the_others() {
    // It cannot be traced, and leaves the group. No process has capabilities, which would show it all the same.
    let python = "import ctypes, os, time; (reader, writer) = os.pipe(); pid = os.fork()\n\
                  if pid == 0: os.setsid(); os.close(1); os.close(2); ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); os.write(writer, b'.'); time.sleep(1000)\n\
                  os.read(reader, 1); print(pid); os._exit(1 if os.path.exists(f'/proc/{pid}') else 7)";
    let script = r#"mount -t proc -o hidepid=ptraceable proc /proc || exit 9
        exec setpriv --bounding-set=-all --inh-caps=-all \
            sh -c 'pid=$("$0" "$@"); echo $?; kill -0 $pid && echo lives || echo ended' "$@""#;
    let Some(mut contained) = in_namespaces(&["--mount-proc"]) else { return };
    contained.args(["sh", "-c", script, "-"]).arg(hustings().get_program());
    contained.args(["run", "--lease=l", "--identity=a", "--leader-elect=false", "--", "python3", "-c", python]);
    let output = contained.output().unwrap();
    if output.status.code() == Some(9) {
        eprintln!("not tested: this machine hides no processes");
        return;
    }
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "7\nended\n", "{}", String::from_utf8_lossy(&output.stderr));
}

/// A wrapper whose command ends with code 7 once the file named after the namespace exists. The command leaves a process
/// outside its group.
async fn command_that_leaves_a_process(plane: &ControlPlane, namespace: &str) -> (Wrapper, u32) {
    let file = plane.folder().join(namespace);
    let script =
        format!("setsid sleep 1000 & echo child $!; while [ ! -e {} ]; do sleep 0.1; done; exit 7", file.display());
    let flags = [&DIRECT[..], &["--stop-grace=1s"]].concat();
    let command = command(&plane.kubeconfig(), namespace, "one", &flags, shell(&script));
    let one = Wrapper::spawn(plane, namespace, "one", command);
    let child = async || one.log().lines().find_map(|line| line.strip_prefix("child ")?.parse().ok());
    let child = until("it has left a process", || one.log(), child).await;
    (one, child)
}

/// While this value lives, the process cannot open any file: only descriptors 0 to 2 are allowed, and they are in use.
struct NoFileDescriptors {
    pid: Pid,
    former: Rlimit,
}

impl NoFileDescriptors {
    fn new(pid: u32) -> Self {
        let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
        let own = getrlimit(Resource::Nofile);
        let former = prlimit(Some(pid), Resource::Nofile, Rlimit { current: Some(3), maximum: own.maximum }).unwrap();
        Self { pid, former }
    }
}

impl Drop for NoFileDescriptors {
    fn drop(&mut self) {
        // It fails only if the process has ended.
        let _ = prlimit(Some(self.pid), Resource::Nofile, self.former);
    }
}
