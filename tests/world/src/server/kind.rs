//! The kinds of object that the server knows.

/// A kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `leases.coordination.k8s.io`.
    Lease,
    /// `leasecandidates.hustings.io`.
    LeaseCandidate,
    /// `events.events.k8s.io`.
    Event,
    /// `configmaps`.
    ConfigMap,
    /// `pods`, which only kubelets write.
    Pod,
    /// A review that is answered and not stored.
    AccessReview,
}

impl Kind {
    /// The kind that is served under this path.
    pub(super) fn find(group: &str, version: &str, plural: &str) -> Option<Self> {
        Some(match (group, version, plural) {
            ("coordination.k8s.io", "v1", "leases") => Self::Lease,
            ("hustings.io", "v1alpha1", "leasecandidates") => Self::LeaseCandidate,
            ("events.k8s.io", "v1", "events") => Self::Event,
            ("", "v1", "configmaps") => Self::ConfigMap,
            ("", "v1", "pods") => Self::Pod,
            ("authorization.k8s.io", "v1", "selfsubjectaccessreviews") => Self::AccessReview,
            _ => return None,
        })
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Lease => "Lease",
            Self::LeaseCandidate => "LeaseCandidate",
            Self::Event => "Event",
            Self::ConfigMap => "ConfigMap",
            Self::Pod => "Pod",
            Self::AccessReview => "SelfSubjectAccessReview",
        }
    }

    pub(super) const fn api_version(self) -> &'static str {
        match self {
            Self::Lease => "coordination.k8s.io/v1",
            Self::LeaseCandidate => "hustings.io/v1alpha1",
            Self::Event => "events.k8s.io/v1",
            Self::ConfigMap | Self::Pod => "v1",
            Self::AccessReview => "authorization.k8s.io/v1",
        }
    }

    /// The name of the resource in messages.
    pub(super) const fn qualified(self) -> &'static str {
        match self {
            Self::Lease => "leases.coordination.k8s.io",
            Self::LeaseCandidate => "leasecandidates.hustings.io",
            Self::Event => "events.events.k8s.io",
            Self::ConfigMap => "configmaps",
            Self::Pod => "pods",
            Self::AccessReview => "selfsubjectaccessreviews.authorization.k8s.io",
        }
    }

    /// Whether a CustomResourceDefinition defines the kind.
    pub(super) const fn is_custom(self) -> bool {
        matches!(self, Self::LeaseCandidate)
    }

    /// Whether an update may lack a resourceVersion.
    pub(super) const fn allows_unconditional_update(self) -> bool {
        matches!(self, Self::Event | Self::ConfigMap)
    }

    /// Whether an update of a missing object creates it.
    pub(super) const fn allows_create_on_update(self) -> bool {
        matches!(self, Self::Lease | Self::Event)
    }
}
