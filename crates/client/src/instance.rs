//! Which process an elector instance is, so that a container that restarts in its pod takes its own Lease back at once.
//!
//! A session `POD-UID.CONTAINER.NETNS.RANDOM` promises that its instance holds, for its whole life, a lock that no two
//! processes hold at once: an abstract Unix socket, named after pod, container, network namespace and Lease, which the
//! kernel takes away with the last process that has it open. Whoever holds that lock therefore knows that every earlier
//! instance of these first three parts is dead, and need not wait for its Lease to run out. Without the lock the session
//! is RANDOM alone, which reclaims nothing and is never reclaimed.
//!
//! The lock is one network namespace's, and the inode number of a namespace is one machine's. It is the UID of the pod,
//! of which there is one in the world, that keeps two machines apart: without it there is no lock. A container without a
//! known name is called `-`: two of them in one pod share the name of the lock, so that only one of them has it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{Resource, getrlimit};

/// The name of a container that does not know its own.
const UNKNOWN_CONTAINER: &str = "-";

/// A DNS label, as the name of a container is, and longer than any UID.
const MOST_PART_BYTES: usize = 63;

/// How long the name of an abstract socket may be on Linux.
const MOST_NAME_BYTES: usize = 107;

/// An elector instance, as long as it lives.
pub(crate) struct Instance {
    /// The session, under which it takes up and claims.
    pub(crate) session: String,
    /// The lock that the session promises.
    pub(crate) lock: Option<InstanceLock>,
}

/// The lock by which nobody else reclaims this instance's Lease. It is held as long as any clone lives, or any process
/// that has inherited it: a process that may go on working after this one has died should.
#[derive(Clone, Debug)]
pub struct InstanceLock(Arc<UnixDatagram>);

impl Instance {
    /// The instance of this pod and container that stands for `lease` (`namespace/name`). `random` is of no other.
    pub(crate) fn new(pod_uid: Option<&str>, container: Option<&str>, lease: &str, random: &str) -> Self {
        let Some(pod_uid) = pod_uid else {
            tracing::debug!(lease, "the pod is not known: after a restart it waits until its Lease has run out");
            return Self::unlocked(random);
        };
        Self::locked(pod_uid, container.unwrap_or(UNKNOWN_CONTAINER), lease, random).unwrap_or_else(|error| {
            tracing::info!(lease, %error, "cannot lock this container: after a restart it waits until its Lease has run out");
            Self::unlocked(random)
        })
    }

    fn unlocked(random: &str) -> Self {
        Self { session: random.to_owned(), lock: None }
    }

    fn locked(pod_uid: &str, container: &str, lease: &str, random: &str) -> io::Result<Self> {
        for part in [pod_uid, container] {
            let is_plain = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if part.is_empty() || part.len() > MOST_PART_BYTES || !is_plain {
                return Err(io::Error::other(format!("{part:?} is no UID of a pod, or no name of a container")));
            }
        }
        let instance = format!("{pod_uid}.{container}.{}", network_namespace()?);
        let socket = bind(&lock_name(&instance, lease))?;
        if !leaves_room(socket.as_raw_fd(), getrlimit(Resource::Nofile).current) {
            return Err(io::Error::other("half of the files that this process may open are open (RLIMIT_NOFILE)"));
        }
        Ok(Self { session: format!("{instance}.{random}"), lock: Some(InstanceLock(Arc::new(socket))) })
    }
}

impl InstanceLock {
    /// Lets every process that is started from now on inherit the lock, so that nobody reclaims the Lease while it
    /// lives, whatever becomes of this one.
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

/// Whether a new file descriptor, of which the lowest free one is taken, lies in the lower half of those that there may
/// be. A thousand electors must not lock themselves out of the connections by which they would lead.
fn leaves_room(new: RawFd, limit: Option<u64>) -> bool {
    let Some(limit) = limit else { return true };
    u64::try_from(new).is_ok_and(|new| new < limit / 2)
}

/// Every version of every program must come to the same name. A long one is shortened by a hash: two that collide share
/// one lock, and one of them does without.
fn lock_name(instance: &str, lease: &str) -> String {
    let name = format!("hustings/{instance}/{lease}");
    if name.len() <= MOST_NAME_BYTES { name } else { format!("hustings/{:016x}", fnv1a(name.as_bytes())) }
}

/// FNV-1a of 64 bits: the hash of the standard library may change from one version of Rust to the next.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The inode number of the network namespace of this thread, in which it also binds: threads of one process may differ.
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
    use std::process::{Command, Stdio};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use super::*;

    /// A pod of this test alone.
    fn pod(test: &str) -> String {
        format!("{test}-{}", std::process::id())
    }

    /// Another test that starts a process has, for a moment, a copy of everything that is open here.
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
        let expected = format!("{pod}.web.{}.ff", network_namespace().unwrap());
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
    fn a_pod_that_is_not_known_has_no_lock_and_containers_without_a_name_share_one() {
        assert_eq!(Instance::new(None, Some("web"), "n/l", "ff").session, "ff");
        let pod = pod("unknown");
        let first = Instance::new(Some(&pod), None, "n/l", "ff");
        assert_eq!(first.session.split('.').nth(1), Some("-"));
        assert_eq!(Instance::new(Some(&pod), None, "n/l", "ff").session, "ff");
        for odd in ["", "a.b", "a/b", &"a".repeat(64)] {
            assert_eq!(Instance::new(Some(odd), None, "n/l", "ff").session, "ff", "{odd:?}");
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_hashed_the_same_in_every_program() {
        let lease = format!("{}/{}", "n".repeat(63), "l".repeat(253));
        assert_eq!(lock_name("u.c.1", &lease), "hustings/603e28ba72c88e9c");
        assert_eq!(lock_name("u.c.1", "n/l"), "hustings/u.c.1/n/l");
        let pod = pod("long");
        let first = Instance::new(Some(&pod), None, &lease, "ff");
        assert!(first.lock.is_some());
        assert!(Instance::new(Some(&pod), None, &lease, "ff").lock.is_none());
    }

    #[test]
    fn locks_leave_half_of_the_file_descriptors_to_connections() {
        assert!(leaves_room(511, Some(1024)) && !leaves_room(512, Some(1024)));
        assert!(leaves_room(RawFd::MAX, None) && !leaves_room(3, Some(0)));
    }

    #[test]
    fn a_process_that_has_inherited_the_lock_keeps_it() {
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
