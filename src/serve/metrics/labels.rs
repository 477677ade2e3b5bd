//! The labels of the metrics. Each label has a closed set of values.

use hustings_core::model::{CandidateKey, CandidateKind};
use hustings_core::ranking::Criterion;
use hustings_core::stand_in::NativeElector;
use prometheus_client::encoding::{EncodeLabel as _, EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::family::Family;

use crate::base::words::words;

/// A family of metrics with one label.
pub type Labelled<M> = Family<ValueLabel, M>;

/// One label: its name and its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValueLabel {
    name: &'static str,
    value: &'static str,
}

impl ValueLabel {
    const fn new(name: &'static str, value: &'static str) -> Self {
        Self { name, value }
    }

    /// The label of a cause.
    pub const fn cause(value: &'static str) -> Self {
        Self::new("cause", value)
    }
}

impl EncodeLabelSet for ValueLabel {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        (self.name, self.value).encode(encoder.encode_label())
    }
}

/// Declares a closed set of label values under one label name.
macro_rules! label_values {
    ($(#[$meta:meta])* $name:ident, $label:literal: $($values:tt)+) => {
        words! {
            $(#[$meta])*
            pub enum $name {
                $($values)+
            }
        }

        impl $name {
            /// The label with this value.
            pub const fn label(self) -> ValueLabel {
                ValueLabel::new($label, self.as_str())
            }
        }
    };
}

label_values! {
    /// The result of an election.
    ElectionResult, "result":
    /// The controller granted a free Lease.
    Granted = "granted",
    /// The controller asked a live holder to hand over.
    Preferred = "preferred",
    /// The controller withdrew its request to hand over.
    Withdrawn = "withdrawn",
    /// The controller left a Lease without a holder on purpose.
    OnHold = "hold",
    /// A Lease without a holder has candidates, but none of them can be elected.
    NoCandidate = "no-candidate",
}

label_values! {
    /// Why the controller prefers a candidate to a live holder.
    PreferenceReason, "reason":
    /// The candidate has the higher priority.
    Priority = "priority",
    /// The candidate has the older emulation version.
    EmulationVersion = "emulation-version",
    /// The candidate has the older binary version.
    BinaryVersion = "binary-version",
    /// The holder announced that it is about to stop.
    Leaving = "leaving",
    /// An administrator excludes the holder.
    Excluded = "excluded",
    /// An administrator pinned the Lease to the candidate.
    Pinned = "pinned",
    /// An administrator transfers the Lease to the candidate.
    Transferred = "transferred",
}

label_values! {
    /// The kind of a request to the API server.
    RequestKind, "request":
    /// Names the electee of a free Lease.
    Grant = "grant",
    /// Asks a holder to hand over.
    Prefer = "prefer",
    /// Withdraws the request to hand over.
    Withdraw = "withdraw",
    /// Records why a Lease stays without a holder.
    Hold = "hold",
    /// Labels a Lease, or names its strategy.
    Enrol = "enrol",
    /// Ends or removes an act of an administrator, or makes a Lease assisted.
    Act = "act",
    /// Releases an assisted Lease.
    Release = "release",
    /// Reads the Pods with the label of a Lease, or writes that label.
    Label = "label",
    /// Creates a Lease.
    Create = "create",
    /// Reads a Lease.
    ReadLease = "read-lease",
    /// Reads a candidate.
    ReadCandidate = "read-candidate",
    /// Pings a candidate.
    Ping = "ping",
    /// Writes a candidate's status.
    Status = "status",
    /// Deletes a candidate that has no owner and no longer answers.
    Delete = "delete",
    /// Publishes an event.
    Event = "event",
}

label_values! {
    /// Why a request failed.
    FailureReason, "error":
    /// The object changed since it was read, was replaced, or exists already.
    Conflict = "conflict",
    /// The object is gone.
    NotFound = "not-found",
    /// The server answered 401 or 403: credentials, RBAC or admission.
    Forbidden = "forbidden",
    /// The server answered with another 4xx.
    Invalid = "invalid",
    /// The server answered 429.
    Throttled = "throttled",
    /// The server answered with any other failure, such as 5xx.
    Server = "server",
    /// No answer arrived in time, the server says so itself (408 and 504), or the request waited too long to be sent.
    Timeout = "timeout",
    /// The server could not be reached, or its answer could not be read.
    Unreachable = "unreachable",
    /// The write gate rejected the request: this process no longer leads.
    NotLeading = "not-leading",
}

label_values! {
    /// A watched kind of objects.
    Resource, "resource":
    /// Leases.
    Leases = "leases",
    /// LeaseCandidates of `hustings.io`.
    Candidates = "leasecandidates",
    /// LeaseCandidates of `coordination.k8s.io`.
    NativeCandidates = "native-leasecandidates",
    /// Pods, which may prove a holder dead.
    Pods = "pods",
    /// Nodes, which may prove a holder dead.
    Nodes = "nodes",
}

label_values! {
    /// The kind of controller that elects native candidates.
    NativeElectorKind, "elector":
    /// It is unknown.
    Unknown = "unknown",
    /// The leading Hustings controller, because no program holds the Lease of Kubernetes' controller.
    Leader = "leader",
    /// Kubernetes' controller, or another program.
    Other = "other",
    /// A Hustings controller that stands in: it holds that Lease.
    StandIn = "stand-in",
}

label_values! {
    /// The state of a Lease.
    LeaseStateLabel, "state":
    /// A candidate holds it.
    Held = "held",
    /// A candidate was elected but has not taken it up yet.
    Granted = "granted",
    /// It has no holder and should have one.
    Unheld = "unheld",
    /// It names no holder but counts as held.
    Reserved = "reserved",
    /// Its live holder has no admissible candidate.
    Foreign = "foreign",
    /// Its live holder knows nothing of Hustings, and the controller assists it.
    Assisted = "assisted",
    /// The same, but nothing would prove the holder dead.
    Unidentified = "unidentified",
    /// It has no holder, and none of its candidates can be elected.
    NoCandidate = "no-candidate",
    /// It has no holder on purpose.
    OnHold = "hold",
    /// The controller has not read it yet.
    Unread = "unread",
}

label_values! {
    /// The kind of a candidate, by its API.
    Kind, "kind":
    /// `hustings.io`.
    Hustings = "hustings",
    /// `coordination.k8s.io`.
    Native = "native",
}

impl Kind {
    /// The kind of this candidate.
    pub const fn of(candidate: &CandidateKey) -> Self {
        match candidate.kind {
            CandidateKind::Hustings => Self::Hustings,
            CandidateKind::Native => Self::Native,
        }
    }
}

impl NativeElectorKind {
    /// The kind of this elector.
    pub const fn of(elector: &NativeElector) -> Self {
        match elector {
            NativeElector::Unknown => Self::Unknown,
            NativeElector::Leader => Self::Leader,
            NativeElector::Other(_) => Self::Other,
            NativeElector::StandIn(_) => Self::StandIn,
        }
    }
}

impl PreferenceReason {
    /// The reason for a preferred holder. `criterion` decided the comparison with the holder; `None` means that the
    /// holder is leaving. Returns `None` for criteria that never cause a request to hand over.
    pub const fn of(criterion: Option<Criterion>) -> Option<Self> {
        match criterion {
            None => Some(Self::Leaving),
            Some(Criterion::Priority) => Some(Self::Priority),
            Some(Criterion::EmulationVersion | Criterion::NewerEmulationVersion) => Some(Self::EmulationVersion),
            Some(Criterion::BinaryVersion | Criterion::NewerBinaryVersion) => Some(Self::BinaryVersion),
            Some(Criterion::Exclusion) => Some(Self::Excluded),
            Some(Criterion::Pin) => Some(Self::Pinned),
            Some(Criterion::Transfer) => Some(Self::Transferred),
            Some(Criterion::Damping | Criterion::CreationTime | Criterion::Name | Criterion::Kind) => None,
        }
    }
}
