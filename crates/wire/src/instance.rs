//! The session of an elector instance, and the name of the lock that it promises.
//!
//! A session `POD-UID.CONTAINER.NETNS.RANDOM` promises that its instance holds an exclusive lock for its whole life.
//! The lock is an abstract Unix socket, named after pod, container, network namespace and Lease. The kernel removes the
//! socket when no process has it open any more. So the holder of the lock knows that all earlier instances with the
//! same first three parts are dead. It need not wait for their Lease to expire. Without the lock, the session is only
//! RANDOM: its instance reclaims no Lease, and no other instance reclaims its Lease.
//!
//! The lock exists in one network namespace, and the inode number of a namespace is unique only on one machine. The
//! globally unique UID of the pod distinguishes machines: without it there is no lock. A container without a known name
//! is called `-`. Two such containers in one pod share the name of the lock, so only one of them can hold it.

/// The container name to pass if the name is unknown. No container has this name, so the end of a container is never
/// evidence that the holder is dead.
pub const UNKNOWN_CONTAINER: &str = "-";

/// The length of a DNS label, such as the name of a container. Every UID is shorter.
const MOST_PART_BYTES: usize = 63;

/// The longest name of an abstract socket on Linux.
const MOST_NAME_BYTES: usize = 107;

/// Where an instance runs: pod, container and network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(String);

/// A UID of a pod or a name of a container that cannot be part of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a valid pod UID or container name")]
pub struct InvalidPlace(String);

impl Place {
    /// The place in this network namespace, named by its inode number.
    ///
    /// # Errors
    /// Fails if a part contains anything else than letters, digits and `-`.
    pub fn new(pod_uid: &str, container: &str, network_namespace: u64) -> Result<Self, InvalidPlace> {
        for part in [pod_uid, container] {
            let is_plain = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if part.is_empty() || part.len() > MOST_PART_BYTES || !is_plain {
                return Err(InvalidPlace(part.to_owned()));
            }
        }
        Ok(Self(format!("{pod_uid}.{container}.{network_namespace}")))
    }

    /// The session of the instance at this place that holds the [lock](Self::lock_name). No other instance may have the
    /// same `random`.
    pub fn session(&self, random: &str) -> String {
        format!("{}.{random}", self.0)
    }

    /// The name of the socket that is the lock of an instance that stands for `lease` (`namespace/name`). Every version
    /// of every program must compute the same name. A hash replaces a long name. If two instances have equal hashes, only
    /// one of them gets the lock.
    pub fn lock_name(&self, lease: &str) -> String {
        let name = format!("hustings/{}/{lease}", self.0);
        if name.len() <= MOST_NAME_BYTES { name } else { format!("hustings/{:016x}", fnv1a(name.as_bytes())) }
    }
}

/// FNV-1a with 64 bits. The hash of the standard library may change between versions of Rust.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_long_is_hashed_the_same_in_every_program() {
        let place = Place::new("u", "c", 1).unwrap();
        let lease = format!("{}/{}", "n".repeat(63), "l".repeat(253));
        assert_eq!(place.lock_name(&lease), "hustings/603e28ba72c88e9c");
        assert_eq!(place.lock_name("n/l"), "hustings/u.c.1/n/l");
        let longest = "l".repeat(MOST_NAME_BYTES - "hustings/u.c.1/".len());
        assert_eq!(place.lock_name(&longest), format!("hustings/u.c.1/{longest}"));
        assert_eq!(place.session("ff"), "u.c.1.ff");
    }

    #[test]
    fn only_a_plain_word_is_part_of_a_session() {
        assert!(Place::new("p", &"a".repeat(63), 1).is_ok());
        for odd in ["", "a.b", "a/b", &"a".repeat(64)] {
            for place in [Place::new(odd, "web", 1), Place::new("p", odd, 1)] {
                let error = place.unwrap_err().to_string();
                assert_eq!(error, format!("{odd:?} is not a valid pod UID or container name"));
            }
        }
    }
}
