//! The edits of a Lease by a person, within the premises: a person does not forge `open` or the release form. And the
//! late release of client-go, which empties the Lease of a live holder.

use hustings_core::model::{LeaseRecord, SessionMark};

/// An edit of a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Another identity becomes the holder.
    Holder(Option<&'static str>),
    /// The duration is changed.
    Duration(u32),
    /// The session is removed.
    NoSession,
    /// The session becomes unreadable.
    GarbledSession,
    /// The holder is asked to hand over.
    Preferred(&'static str),
    /// The label is removed, or set.
    Label,
    /// A process of client-go that has lost the Lease releases it. It keeps the annotations.
    LateRelease,
}

impl Edit {
    /// The Lease after the edit; `None` if the edit changes nothing, or is not within the premises.
    pub(crate) fn applied_to(self, lease: &LeaseRecord) -> Option<LeaseRecord> {
        let mut edited = lease.clone();
        match self {
            Self::Holder(holder) => edited.holder = holder.map(str::to_owned),
            Self::Duration(seconds) => edited.duration_seconds = seconds,
            Self::NoSession => edited.session = SessionMark::Absent,
            Self::GarbledSession => edited.session = SessionMark::Unreadable("garbled".to_owned()),
            Self::Preferred(name) => edited.preferred_holder = Some(name.to_owned()),
            Self::Label => edited.enrolled = !edited.enrolled,
            Self::LateRelease => (edited.holder, edited.duration_seconds) = (None, 1),
        }
        let forges = edited.is_open() || (is_released(&edited) && !is_released(lease));
        (edited != *lease && !forges).then_some(edited)
    }
}

/// Whether the record shows that its term has been given up. The premises do not ask the code under test for it.
fn is_released(lease: &LeaseRecord) -> bool {
    let by_client_go = lease.duration_seconds == 1 && lease.session == SessionMark::Absent;
    lease.holder.is_none() && (lease.is_open() || by_client_go)
}
