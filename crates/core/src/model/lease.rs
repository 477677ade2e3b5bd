//! The content of one version of a Lease. Every possible content is accepted.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::expiry::{GIVEN_UP_SECONDS, UNDECLARED_DURATION_SECONDS, declared};
use super::{Cause, Ending, History, LeaseActs, PastTerm, RunningTerm, Unparsed, WireTime};

/// How long a grant or a hand-over lasts, in seconds.
pub(crate) const GRANT_DURATION_SECONDS: u32 = 5;

/// One version of a Lease (`coordination.k8s.io/v1`). Reading it cannot fail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeaseRecord {
    /// `metadata.uid`. A different uid means a different Lease of the same name.
    pub uid: String,
    /// `metadata.resourceVersion`. The versions of one resource are comparable integers.
    pub resource_version: u64,
    /// `spec.holderIdentity`; `None` if it is null, absent or empty.
    pub holder: Option<String>,
    /// `spec.leaseDurationSeconds`; 0 if it is absent or negative.
    pub duration_seconds: u32,
    /// `spec.acquireTime`.
    pub acquire_time: Option<WireTime>,
    /// `spec.renewTime`.
    pub renew_time: Option<WireTime>,
    /// `spec.leaseTransitions`; 0 if it is absent or negative.
    pub transitions: u32,
    /// Annotation `hustings.io/session`.
    pub session: SessionMark,
    /// The text of those of the fields above that they do not represent exactly, such as a time that does not parse.
    pub unparsed: Unparsed,
    /// Annotation `hustings.io/token`.
    pub token: Option<u64>,
    /// Annotation `hustings.io/preferred-holder`.
    pub preferred_holder: Option<String>,
    /// Annotation `hustings.io/strategy`.
    pub strategy: Option<String>,
    /// Annotation `hustings.io/hold`: why the Lease deliberately has no holder.
    pub hold: Option<String>,
    /// The acts of administrators, except the hold.
    pub acts: LeaseActs,
    /// Annotation `hustings.io/key`: the holder's preference in direct mode.
    pub key: Option<i64>,
    /// Annotation `hustings.io/leaving: "true"`: the holder is about to stop. It leads until it can hand over.
    pub leaving: bool,
    /// Annotation `hustings.io/history`: the past terms.
    pub history: History,
    /// Label `hustings.io/enrolled: "true"`.
    pub enrolled: bool,
    /// The native fields. Only a native holder reads them; to every other process they are a copy.
    pub native: NativeFields,
}

/// `spec.strategy` and `spec.preferredHolder`. A server keeps them only if its feature gate is on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NativeFields {
    /// `spec.strategy`.
    pub strategy: Option<String>,
    /// `spec.preferredHolder`.
    pub preferred_holder: Option<String>,
}

/// The annotation `hustings.io/session`: the term that a record belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum SessionMark {
    /// No such annotation: another kind of elector wrote the record. The record is not open.
    #[default]
    Absent,
    /// `open`: a grant, hand-over or release has ended the last term.
    Open,
    /// A term of one elector instance.
    Term(SessionStamp),
    /// Any other text. It names no term and is not open.
    Unreadable(String),
}

/// `SESSION/TERM/SECONDS`: one term of one elector instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionStamp {
    /// The elector instance.
    pub session: String,
    /// Counts the terms of this instance.
    pub term: u64,
    /// The lease duration of that instance.
    pub seconds: u32,
}

impl SessionStamp {
    /// Returns `POD-UID.CONTAINER.NETNS` of a session `POD-UID.CONTAINER.NETNS.RANDOM`. Such a session promises that
    /// its instance held, for its whole life, a lock that only one process can hold at a time. A session that is only
    /// RANDOM promises nothing.
    pub fn place(session: &str) -> Option<&str> {
        let (place, random) = session.rsplit_once('.')?;
        let parts: Vec<&str> = place.split('.').collect();
        (parts.len() == 3 && !random.is_empty() && !parts.contains(&"")).then_some(place)
    }
}

impl LeaseRecord {
    /// The only form in which Hustings creates a Lease: empty, enrolled, and without the session annotation. Such a
    /// Lease counts as held for every process but its creator.
    pub fn as_created() -> Self {
        Self { duration_seconds: UNDECLARED_DURATION_SECONDS, enrolled: true, ..Self::default() }
    }

    /// Whether the session annotation is `open`.
    pub fn is_open(&self) -> bool {
        self.session == SessionMark::Open
    }

    /// Whether the record by itself shows that it is free without having to expire: it has no holder, and it is open or
    /// has client-go's release form without a session. [`Observed`](super::Observed) knows more: whether a session is
    /// left over from an earlier term, and whether the record has expired.
    pub fn is_given_up(&self) -> bool {
        self.holder.is_none() && (self.is_open() || (self.session == SessionMark::Absent && self.duration_seconds == 1))
    }

    /// Whether the record has client-go's release form: no holder, duration 1, and not open. A holder of `hustings.io`
    /// never writes this form. client-go may write it long after it has lost the Lease, and so over the term of its
    /// successor.
    pub fn has_release_form(&self) -> bool {
        self.holder.is_none() && self.duration_seconds == GIVEN_UP_SECONDS && !self.is_open()
    }

    /// The holder, if it is an elector that is about to stop.
    pub fn leaving_holder(&self) -> Option<&str> {
        self.holder.as_deref().filter(|_| self.leaving && self.session.stamp().is_some())
    }

    /// The token of a term that begins with a write conditional on this version. It is the version itself, which no
    /// earlier term on this server can have had. If the record's token is not lower, the new token is one more than it.
    ///
    /// The second case occurs after a restore of etcd, or if the Lease was moved to another cluster. The server's
    /// versions may then be lower than the one on which the last term began.
    pub fn next_token(&self) -> u64 {
        self.resource_version.max(self.token.map_or(0, |token| token.saturating_add(1)))
    }

    /// The transitions that a grant, hand-over or claim of this record writes. They stay at the greatest number that the
    /// field can hold.
    pub fn next_transitions(&self) -> u32 {
        self.transitions.saturating_add(1).min(i32::MAX.cast_unsigned())
    }

    /// The term of this record, ended at `given_up_at`, or at its last renewal if that is `None`. `None` in the same
    /// cases as [`running_term`](Self::running_term).
    pub fn past_term(&self, ending: Ending, given_up_at: Option<WireTime>) -> Option<PastTerm> {
        let RunningTerm { number, holder, since, .. } = self.running_term()?;
        let until = given_up_at.or(self.renew_time).unwrap_or(since);
        Some(PastTerm::new(number, &holder, (since, until), ending))
    }

    /// The term of this record, as its history shows it, or else the record itself. `None` if the record has no holder
    /// or no time.
    pub fn running_term(&self) -> Option<RunningTerm> {
        if self.has_release_form() && self.session.stamp().is_some() {
            return self.history.running_of_anybody(self.transitions);
        }
        let holder = self.holder.as_deref()?;
        let recorded = self.history.running(self.transitions, holder);
        let since = self.acquire_time.or(self.renew_time);
        recorded.or_else(|| Some(RunningTerm::new(self.transitions, holder, since?, None)))
    }

    /// The history after the term of this record has ended. `known` are the terms before it.
    pub fn history_after(&self, known: &History, ending: Ending, given_up_at: Option<WireTime>) -> History {
        let term = self.past_term(ending, given_up_at);
        term.map_or_else(|| known.without_running(), |term| known.with(&term))
    }

    /// The history while the holder of this record is asked to hand over because of `request`; `None` if it is not
    /// asked. `known` are the terms before it.
    pub fn history_with_request(&self, known: &History, request: Option<Cause>) -> History {
        let term = self.running_term().map(|term| RunningTerm { request, ..term });
        term.map_or_else(|| known.without_running(), |term| known.with_running(&term))
    }

    /// Until when the writer of this record may own instants of the wall clock: the renew time, plus the duration
    /// unless the record was given up.
    ///
    /// A write that begins a term on this record, or grants it, has a renew time that is not earlier. So the time
    /// ranges of two terms never overlap, whatever the clocks show.
    pub fn range_end(&self) -> Option<WireTime> {
        // A field at the maximum carries no information, and has no later value.
        let renewed = self.renew_time.filter(|time| *time < WireTime::MAX)?;
        if self.is_open() || self.is_given_up() {
            return Some(renewed);
        }
        let declared = Duration::from_secs(u64::from(self.declared_seconds()));
        Some(renewed.after(declared)).filter(|end| *end < WireTime::MAX)
    }

    /// The renew time of a grant of this record at `wall`: later than the former one, and not before the
    /// [end of its range](Self::range_end).
    pub fn grant_time(&self, wall: WireTime) -> WireTime {
        wall.max(self.range_end().unwrap_or(wall)).later_than(self.renew_time)
    }

    /// Grants the record to `electee`, as a controller does, but without a check, a reason or a history. For stores that
    /// have no controller.
    pub fn grant_to(&mut self, electee: &str, wall: WireTime) {
        self.renew_time = Some(self.grant_time(wall));
        self.acquire_time = Some(wall);
        self.holder = Some(electee.to_owned());
        self.duration_seconds = GRANT_DURATION_SECONDS;
        self.transitions = self.next_transitions();
        self.session = SessionMark::Open;
        self.preferred_holder = None;
        self.hold = None;
        self.leaving = false;
        self.enrolled = true;
    }

    /// How long this version allows its holder to rely on it, in seconds: at least its duration, and at most an hour.
    /// Unless the record is open, it is also at least the SECONDS of its session, or 15 s without a readable session.
    pub fn declared_seconds(&self) -> u32 {
        let least = match &self.session {
            SessionMark::Open => 0,
            SessionMark::Term(stamp) => stamp.seconds,
            SessionMark::Absent | SessionMark::Unreadable(_) => UNDECLARED_DURATION_SECONDS,
        };
        declared(self.duration_seconds, least)
    }

    /// Whether `next` is a renewal of this record's term: its elector has changed nothing but `renewTime`, and perhaps
    /// the duration.
    pub fn is_renewed_by(&self, next: &Self) -> bool {
        self.session.stamp().is_some()
            && self.renew_time != next.renew_time
            && (&self.uid, &self.holder, &self.session) == (&next.uid, &next.holder, &next.session)
            && (self.acquire_time, self.transitions) == (next.acquire_time, next.transitions)
    }

    /// Whether `other` is the same record. Only these fields count: a change of other metadata does not prove that the
    /// holder lives.
    pub fn is_same_record(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.holder == other.holder
            && self.duration_seconds == other.duration_seconds
            && self.acquire_time == other.acquire_time
            && self.renew_time == other.renew_time
            && self.transitions == other.transitions
            && self.session == other.session
            && self.unparsed == other.unparsed
    }
}

impl SessionMark {
    /// Parses the annotation. Any text that is not valid becomes [`Unreadable`](Self::Unreadable).
    pub fn read(annotation: Option<&str>) -> Self {
        match annotation {
            None => Self::Absent,
            Some("open") => Self::Open,
            Some(text) => text.parse().map_or_else(|()| Self::Unreadable(text.to_owned()), Self::Term),
        }
    }

    /// The stamp of the term that the record belongs to.
    pub fn stamp(&self) -> Option<&SessionStamp> {
        match self {
            Self::Term(stamp) => Some(stamp),
            Self::Absent | Self::Open | Self::Unreadable(_) => None,
        }
    }

    /// The UID of the pod and the name of the container in which the instance runs, if its session has a
    /// [place](SessionStamp::place).
    pub fn pod_and_container(&self) -> Option<(&str, &str)> {
        let mut parts = SessionStamp::place(&self.stamp()?.session)?.split('.');
        parts.next().zip(parts.next())
    }
}

impl fmt::Display for SessionMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => Ok(()),
            Self::Open => f.write_str("open"),
            Self::Term(stamp) => stamp.fmt(f),
            Self::Unreadable(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for SessionStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.session, self.term, self.seconds)
    }
}

impl FromStr for SessionStamp {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.rsplitn(3, '/');
        let seconds = parts.next().and_then(|part| part.parse().ok()).ok_or(())?;
        let term = parts.next().and_then(|part| part.parse().ok()).ok_or(())?;
        let session = parts.next().filter(|part| !part.is_empty()).ok_or(())?;
        Ok(Self { session: session.to_owned(), term, seconds })
    }
}

#[cfg(test)]
mod tests;
