//! The values of the labels, each a closed set.

use hustings_core::ranking::Criterion;

use super::ValueLabel;

/// Declares a closed set of label values under one label name.
macro_rules! label_values {
    ($(#[$meta:meta])* $name:ident, $label:literal: $($(#[$variant_meta:meta])* $variant:ident = $text:literal),+ $(,)?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_meta])* $variant),+
        }

        impl $name {
            /// Every value.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The value as it is printed.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }

            /// The label with this value.
            pub const fn label(self) -> ValueLabel {
                ValueLabel::new($label, self.as_str())
            }
        }
    };
}

label_values! {
    /// What came of an election.
    Verdict, "result":
    /// A free Lease was granted.
    Granted = "granted",
    /// A live holder was asked to hand over.
    Preferred = "preferred",
    /// A holder is no longer asked to hand over.
    Withdrawn = "withdrawn",
    /// A Lease is left without a holder on purpose.
    OnHold = "hold",
    /// A Lease without a holder has candidates, and none of them can be elected.
    NoCandidate = "no-candidate",
}

label_values! {
    /// What makes a candidate better than a live holder.
    Merit, "reason":
    /// It has the higher priority.
    Priority = "priority",
    /// It has the older emulation version.
    EmulationVersion = "emulation-version",
    /// It has the older binary version.
    BinaryVersion = "binary-version",
    /// The holder is about to stop.
    Leaving = "leaving",
}

label_values! {
    /// What a request does.
    Request, "request":
    /// Names the electee of a free Lease.
    Grant = "grant",
    /// Asks a holder to hand over.
    Prefer = "prefer",
    /// Takes back what a holder was asked.
    Withdraw = "withdraw",
    /// Says why a Lease stays without a holder.
    Hold = "hold",
    /// Labels a Lease, or names its strategy.
    Enrol = "enrol",
    /// Creates a Lease.
    Create = "create",
    /// Reads a Lease.
    ReadLease = "read-lease",
    /// Reads a candidate.
    ReadCandidate = "read-candidate",
    /// Pings a candidate.
    Ping = "ping",
    /// Records a candidate's status.
    Status = "status",
    /// Deletes a candidate that nobody owns and that answers no more.
    Delete = "delete",
    /// Publishes an event.
    Event = "event",
}

label_values! {
    /// Why a request failed.
    Failure, "error":
    /// The object changed in between.
    Conflict = "conflict",
    /// The object is gone.
    NotFound = "not-found",
    /// RBAC refuses it.
    Forbidden = "forbidden",
    /// The server refuses what was sent.
    Invalid = "invalid",
    /// The server asks for patience.
    Throttled = "throttled",
    /// The server failed.
    Server = "server",
    /// No answer came in time.
    Timeout = "timeout",
    /// The server was not reached.
    Unreachable = "unreachable",
    /// This process does not elect any more.
    NotLeading = "not-leading",
}

label_values! {
    /// A kind of objects that is watched.
    Resource, "resource":
    /// Leases.
    Leases = "leases",
    /// LeaseCandidates.
    Candidates = "leasecandidates",
}

label_values! {
    /// The state of a Lease.
    LeaseState, "state":
    /// A candidate holds it.
    Held = "held",
    /// A candidate has been elected and has not begun its term yet.
    Granted = "granted",
    /// Nobody holds it, and somebody should.
    Unheld = "unheld",
    /// Nobody is named, and yet it counts as held.
    Reserved = "reserved",
    /// A live holder has no candidate.
    Foreign = "foreign",
    /// Nobody holds it, and none of its candidates can be elected.
    NoCandidate = "no-candidate",
    /// It is left without a holder on purpose.
    OnHold = "hold",
    /// Nothing is known of it yet.
    Unread = "unread",
}

label_values! {
    /// How a Lease lost its holder.
    Cause, "cause":
    /// It has never had one that is known.
    New = "new",
    /// There is no such object.
    Missing = "missing",
    /// The last holder released it.
    Released = "released",
    /// The holder stopped renewing.
    Lapsed = "lapsed",
    /// The electee did not take up its grant.
    GrantNotTakenUp = "grant-not-taken-up",
    /// The holder handed it over.
    HandOver = "hand-over",
}

impl Merit {
    /// What `criterion` says, by which a holder was asked to hand over; `None` if it deposes nobody.
    pub const fn of(criterion: Option<Criterion>) -> Option<Self> {
        match criterion {
            None => Some(Self::Leaving),
            Some(Criterion::Priority) => Some(Self::Priority),
            Some(Criterion::EmulationVersion) => Some(Self::EmulationVersion),
            Some(Criterion::BinaryVersion) => Some(Self::BinaryVersion),
            Some(Criterion::Damping | Criterion::CreationTime | Criterion::Name) => None,
        }
    }
}
