//! The names that Hustings writes into objects, and the rules for names of objects. They are part of the protocol:
//! other programs read them.

pub use hustings_core::names::{LONGEST_NAME, is_dns_label, is_dns_subdomain};

/// The API group of LeaseCandidate.
pub const GROUP: &str = "hustings.io";
/// The API group of Leases and of native LeaseCandidates.
pub const NATIVE_GROUP: &str = "coordination.k8s.io";

/// Label of every Lease that takes part in elections, with the value [`ENROLLED`]. The controller's watch selects it.
pub const ENROLLED_LABEL: &str = "hustings.io/enrolled";
/// The value of [`ENROLLED_LABEL`].
pub const ENROLLED: &str = "true";

/// Lease annotation: the session and term that the record belongs to, or `open`.
pub const SESSION: &str = "hustings.io/session";
/// Lease annotation: the term's token.
pub const TOKEN: &str = "hustings.io/token";
/// Annotation of objects that a leader writes: the Lease and the token of its term, as `NAMESPACE/LEASE/TOKEN`.
pub const FENCE: &str = "hustings.io/fence";
/// Lease annotation: the identity that the holder is asked to hand over to.
pub const PREFERRED_HOLDER: &str = "hustings.io/preferred-holder";
/// Lease annotation: the strategy of the last election.
pub const STRATEGY: &str = "hustings.io/strategy";
/// Lease annotation: why the Lease deliberately has no holder.
pub const HOLD: &str = "hustings.io/hold";
/// Lease annotation: when the pause that `hustings.io/hold` records ends, in the format of RFC 3339.
pub const HOLD_UNTIL: &str = "hustings.io/hold-until";
/// Lease annotation: the candidate to which the holder hands over once, or `any`.
pub const TRANSFER: &str = "hustings.io/transfer";
/// Lease annotation: the candidate that ranks first until a time, as `NAME until TIME`.
pub const PIN: &str = "hustings.io/pin";
/// Lease annotation: the Lease is released once its holder, a component that knows nothing of Hustings, is proven dead.
pub const ASSIST: &str = "hustings.io/assist";
/// Lease annotation: the label that the controller keeps on the Pod of the holder, as `KEY=VALUE`.
pub const LEADER_LABEL: &str = "hustings.io/leader-label";
/// Candidate annotation: until when an administrator excludes it, and why, as `TIME: REASON`.
pub const EXCLUDE: &str = "hustings.io/exclude";
/// Annotation of a Lease or a candidate: who asked for the newest act, according to its writer.
pub const ASKED_BY: &str = "hustings.io/asked-by";
/// Lease annotation: the holder's preference in direct mode.
pub const KEY: &str = "hustings.io/key";
/// Lease annotation: the holder is about to stop, and leads until it can hand over. Its value is [`LEAVES`].
pub const LEAVING: &str = "hustings.io/leaving";
/// The value of [`LEAVING`].
pub const LEAVES: &str = "true";
/// Lease annotation: one sentence on the last election.
pub const REASON: &str = "hustings.io/reason";

/// Lease annotation: the past terms, newest first, one per line.
pub const HISTORY: &str = "hustings.io/history";

/// Annotation of the Lease of Kubernetes' election controller: the group and the name of the Hustings controller that
/// holds it.
pub const STAND_IN: &str = "hustings.io/stand-in";

/// Candidate annotation: the duration of a Lease that this candidate holds, in seconds.
pub const LEASE_DURATION: &str = "hustings.io/lease-duration";

/// The conditions in the status of a candidate. Lists of their times and messages have the same order.
pub const CONDITIONS: [&str; 3] = ["Admissible", "Responsive", "Leading"];

/// The longest `reportingInstance` of an event, in bytes. The API server rejects a longer one.
const LONGEST_REPORTING_INSTANCE: usize = 128;

/// Returns the part of an identity that fits into `reportingInstance` of an event.
pub fn reporting_instance(identity: &str) -> &str {
    identity.get(..identity.floor_char_boundary(LONGEST_REPORTING_INSTANCE)).unwrap_or(identity)
}

/// Whether this is the UID that a kubelet gives a static pod: the MD5 of its manifest. The downward API reports this
/// UID in the pod. The API server knows only the mirror pod, which gets another UID each time it is created. UIDs from
/// an API server have hyphens.
pub fn is_static_pod_uid(uid: &str) -> bool {
    uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uid_of_a_static_pod_is_an_md5() {
        let md5 = "0123456789abcdef0123456789abcdef";
        assert!(is_static_pod_uid(md5));
        for other in ["", &md5[1..], "0123456789abcdef0123456789abcdeg", "01234567-89ab-4def-8123-456789abcdef"] {
            assert!(!is_static_pod_uid(other), "{other:?}");
        }
    }

    #[test]
    fn a_reporting_instance_is_cut_to_the_length_that_the_server_accepts() {
        assert_eq!(reporting_instance("web-0"), "web-0");
        // A character of two bytes that does not fit is left out.
        let long = format!("{}\u{e4}", "x".repeat(127));
        assert_eq!(reporting_instance(&long), "x".repeat(127));
        assert_eq!(reporting_instance(&"x".repeat(300)).len(), 128);
    }
}
