//! The identity of an elector instance, so that a restarted container takes its own Lease back at once.
//!
//! [`hustings_wire::instance`] says what a session and its lock promise. Here the lock is taken.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use hustings_wire::instance::Place;
pub use hustings_wire::instance::UNKNOWN_CONTAINER;
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{Resource, getrlimit};

/// An elector instance.
pub(crate) struct Instance {
    /// The session of its take-ups and claims.
    pub(crate) session: String,
    /// The lock that the session promises.
    pub(crate) lock: Option<InstanceLock>,
}

/// The lock that keeps other instances from reclaiming this instance's Lease. It is held as long as a clone of this
/// value or a process that inherited the lock exists. Let a process inherit it if that process may continue to work
/// after this process has died.
#[derive(Clone, Debug)]
pub struct InstanceLock(Arc<UnixDatagram>);

impl Instance {
    /// Creates the instance of this pod and container that stands for `lease` (`namespace/name`). No other instance may
    /// have the same `random`.
    pub(crate) fn new(pod_uid: Option<&str>, container: Option<&str>, lease: &str, random: &str) -> Self {
        let Some(pod_uid) = pod_uid else {
            tracing::debug!(lease, "pod UID unknown: after a restart this elector waits until its Lease has expired");
            return Self::unlocked(random);
        };
        let (container, limit) = (container.unwrap_or(UNKNOWN_CONTAINER), getrlimit(Resource::Nofile).current);
        Self::locked(pod_uid, container, lease, random, limit).unwrap_or_else(|error| {
            tracing::info!(
                lease, %error,
                "cannot lock this container: after a restart this elector waits until its Lease has expired"
            );
            Self::unlocked(random)
        })
    }

    fn unlocked(random: &str) -> Self {
        Self { session: random.to_owned(), lock: None }
    }

    /// `limit` is the maximum number of file descriptors that this process may have.
    fn locked(pod_uid: &str, container: &str, lease: &str, random: &str, limit: Option<u64>) -> io::Result<Self> {
        let place = Place::new(pod_uid, container, network_namespace()?).map_err(io::Error::other)?;
        let socket = bind(&place.lock_name(lease))?;
        if !leaves_room(socket.as_raw_fd(), limit) {
            return Err(io::Error::other(
                "half of the file descriptors of this process are in use: raise RLIMIT_NOFILE",
            ));
        }
        Ok(Self { session: place.session(random), lock: Some(InstanceLock(Arc::new(socket))) })
    }
}

impl InstanceLock {
    /// Lets every process started from now on inherit the lock. No other instance reclaims the Lease while such a
    /// process lives, even if this process dies.
    ///
    /// # Errors
    /// Fails if the flags of the file descriptor cannot be changed.
    pub fn let_children_inherit(&self) -> io::Result<()> {
        let flags = fcntl_getfd(self)?;
        Ok(fcntl_setfd(self, flags.difference(FdFlags::CLOEXEC))?)
    }
}

impl AsFd for InstanceLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether a new file descriptor is in the lower half of the range that the process may use; the kernel assigns the
/// lowest free one. The locks of a thousand electors must leave descriptors for the connections that the electors need
/// to lead.
fn leaves_room(new: RawFd, limit: Option<u64>) -> bool {
    let Some(limit) = limit else { return true };
    u64::try_from(new).is_ok_and(|new| new < limit / 2)
}

/// The inode number of this thread's network namespace, in which the thread also binds. Threads of one process may have
/// different ones.
#[cfg(target_os = "linux")]
fn network_namespace() -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata("/proc/thread-self/ns/net")?.ino())
}

#[cfg(target_os = "linux")]
fn bind(name: &str) -> io::Result<UnixDatagram> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

#[cfg(not(target_os = "linux"))]
fn network_namespace() -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn bind(_name: &str) -> io::Result<UnixDatagram> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
pub(crate) mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::process::{Command, Stdio};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use super::*;

    /// A pod that only this test uses.
    fn pod(test: &str) -> String {
        format!("{test}-{}", std::process::id())
    }

    /// Whether a lock becomes free within a minute. A process that another test starts has, for a moment, a copy of all
    /// open files.
    pub(crate) fn is_free_soon(instance: impl Fn() -> Instance) -> bool {
        let until = Instant::now() + Duration::from_mins(1);
        while Instant::now() < until {
            if instance().lock.is_some() {
                return true;
            }
            sleep(Duration::from_millis(5));
        }
        false
    }

    #[test]
    fn an_instance_holds_its_lock_for_as_long_as_it_lives() {
        let pod = pod("life");
        let first = Instance::new(Some(&pod), Some("web"), "n/l", "ff");
        let inode = std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
        let expected = format!("{pod}.web.{inode}.ff");
        assert_eq!((first.session, first.lock.is_some()), (expected, true));
        let second = Instance::new(Some(&pod), Some("web"), "n/l", "aa");
        assert_eq!((second.session.as_str(), second.lock.is_none()), ("aa", true), "one at a time");
        for (container, lease) in [("other", "n/l"), ("web", "n/other")] {
            assert!(Instance::new(Some(&pod), Some(container), lease, "aa").lock.is_some(), "{container} {lease}");
        }
        drop(first.lock);
        assert!(is_free_soon(|| Instance::new(Some(&pod), Some("web"), "n/l", "aa")));
    }

    #[test]
    fn an_unknown_pod_has_no_lock_and_containers_without_a_name_share_one() {
        assert_eq!(Instance::new(None, Some("web"), "n/l", "ff").session, "ff");
        let pod = pod("unknown");
        let first = Instance::new(Some(&pod), None, "n/l", "ff");
        assert_eq!(first.session.split('.').nth(1), Some("-"));
        assert_eq!(Instance::new(Some(&pod), None, "n/l", "ff").session, "ff");
        assert!(Instance::new(Some(&pod), Some(&"a".repeat(63)), "n/l", "ff").lock.is_some());
        for odd in ["", "a.b", "a/b", &"a".repeat(64)] {
            assert_eq!(Instance::new(Some(odd), None, "n/l", "ff").session, "ff", "{odd:?}");
        }
    }

    #[test]
    fn a_lease_with_the_longest_name_has_a_lock() {
        let lease = format!("{}/{}", "n".repeat(63), "l".repeat(253));
        let pod = pod("long");
        let first = Instance::new(Some(&pod), None, &lease, "ff");
        assert!(first.lock.is_some());
        assert!(Instance::new(Some(&pod), None, &lease, "ff").lock.is_none());
    }

    #[test]
    fn locks_leave_half_of_the_file_descriptors_to_connections() {
        assert!(leaves_room(511, Some(1024)) && !leaves_room(512, Some(1024)));
        assert!(leaves_room(RawFd::MAX, None) && !leaves_room(3, Some(0)));
        let pod = pod("room");
        for (limit, is_locked) in [(Some(0), false), (None, true)] {
            assert_eq!(Instance::locked(&pod, "web", "n/l", "ff", limit).is_ok(), is_locked, "{limit:?}");
        }
    }

    #[test]
    fn a_process_that_inherits_the_lock_keeps_it() {
        let pod = pod("heir");
        let instance = || Instance::new(Some(&pod), None, "n/l", "ff");
        for inherits in [false, true] {
            let held = instance();
            if inherits {
                held.lock.as_ref().unwrap().let_children_inherit().unwrap();
            }
            let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            drop(held);
            if inherits {
                assert!(instance().lock.is_none());
            } else {
                assert!(is_free_soon(instance));
            }
            drop(child.stdin.take());
            child.wait().unwrap();
            assert!(is_free_soon(instance));
        }
    }
}
