//! What a version of a Lease says, as a value that every content of the object has.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::WireTime;
use super::expiry::{UNDECLARED_DURATION_SECONDS, declared};

/// One version of a Lease (`coordination.k8s.io/v1`), read so that nothing in it can fail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeaseRecord {
    /// `metadata.uid`: another one is another Lease of the same name.
    pub uid: String,
    /// `metadata.resourceVersion`; those of one resource are comparable integers.
    pub resource_version: u64,
    /// `spec.holderIdentity`; `None` where it is null, absent or empty.
    pub holder: Option<String>,
    /// `spec.leaseDurationSeconds`; 0 where it is absent or negative.
    pub duration_seconds: u32,
    /// `spec.acquireTime`.
    pub acquire_time: Option<WireTime>,
    /// `spec.renewTime`.
    pub renew_time: Option<WireTime>,
    /// `spec.leaseTransitions`; 0 where it is absent or negative.
    pub transitions: u32,
    /// Annotation `hustings.io/session`.
    pub session: SessionMark,
    /// Annotation `hustings.io/token`.
    pub token: Option<u64>,
    /// Annotation `hustings.io/preferred-holder`; the native field is never read.
    pub preferred_holder: Option<String>,
    /// Annotation `hustings.io/strategy`; the native field is never read.
    pub strategy: Option<String>,
    /// Annotation `hustings.io/hold`: why the Lease is left without a holder on purpose.
    pub hold: Option<String>,
    /// Annotation `hustings.io/key`: the holder's preference in direct mode.
    pub key: Option<i64>,
    /// Annotation `hustings.io/leaving: "true"`: the holder is about to stop, and leads until it can hand over.
    pub leaving: bool,
    /// Label `hustings.io/enrolled: "true"`.
    pub enrolled: bool,
}

/// The annotation `hustings.io/session`: whose term a record belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum SessionMark {
    /// No such annotation: a record of somebody else's elector, which is not open.
    #[default]
    Absent,
    /// `open`: the last tenure was given up by a grant, hand-over or release.
    Open,
    /// A term of one elector instance.
    Term(SessionStamp),
    /// Anything else. It names no term and is not open.
    Unreadable(String),
}

/// `SESSION/TERM/SECONDS`: one term of one elector instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionStamp {
    /// The elector instance.
    pub session: String,
    /// Counts this instance's terms.
    pub term: u64,
    /// The lease duration of that instance.
    pub seconds: u32,
}

impl SessionStamp {
    /// `POD-UID.CONTAINER.NETNS` of a session `POD-UID.CONTAINER.NETNS.RANDOM`. Such a session promises that its instance
    /// held, for its whole life, a lock that only one process has at a time. One that is RANDOM alone promises nothing.
    pub fn place(session: &str) -> Option<&str> {
        let (place, random) = session.rsplit_once('.')?;
        let parts: Vec<&str> = place.split('.').collect();
        (parts.len() == 3 && !random.is_empty() && !parts.contains(&"")).then_some(place)
    }
}

impl LeaseRecord {
    /// The one form in which anybody creates a Lease: empty, enrolled, without the mark, so that it counts as held to
    /// all but its creator.
    pub fn as_created() -> Self {
        Self { duration_seconds: UNDECLARED_DURATION_SECONDS, enrolled: true, ..Self::default() }
    }

    /// Whether the record carries the mark `open`.
    pub fn is_open(&self) -> bool {
        self.session == SessionMark::Open
    }

    /// Whether the record is free whatever the time: no holder and open, or client-go's release form (no holder,
    /// duration 1). That a record has expired is for [`Observed`](super::Observed) to say.
    pub fn is_given_up(&self) -> bool {
        self.holder.is_none() && (self.is_open() || self.duration_seconds == 1)
    }

    /// Whether this is a grant, or a hand-over, that nobody has taken up yet.
    pub fn is_grant(&self) -> bool {
        self.holder.is_some() && self.is_open()
    }

    /// Who holds the Lease, if that is a term of an elector that is about to stop.
    pub fn leaving_holder(&self) -> Option<&str> {
        self.holder.as_deref().filter(|_| self.leaving && self.session.stamp().is_some())
    }

    /// The token of a term that begins by a write conditional on this version: the version itself, which no former term
    /// on this server can have had, and more than the token that stands here. The second half matters where the server
    /// gives out lower versions than the one on which the former term began: after a restore of etcd, or in another
    /// cluster to which the Lease was moved.
    pub fn next_token(&self) -> u64 {
        self.resource_version.max(self.token.map_or(0, |token| token.saturating_add(1)))
    }

    /// Up to when whoever wrote this may call instants of the wall clock its own: the renew time, and the duration of a
    /// record that nobody gave up. Whoever begins a term on this record, or grants it, gives its write a renew time that is
    /// not earlier, so that the time ranges of two terms do not overlap whatever the clocks show.
    pub fn range_end(&self) -> Option<WireTime> {
        // A field that stands at the very end tells nothing, and has no later value.
        let renewed = self.renew_time.filter(|time| *time < WireTime::MAX)?;
        if self.is_open() || self.is_given_up() {
            return Some(renewed);
        }
        let declared = Duration::from_secs(u64::from(self.declared_seconds()));
        Some(renewed.after(declared)).filter(|end| *end < WireTime::MAX)
    }

    /// For how long this version says that its holder may rely on it, in seconds: its duration and, unless it is open, at
    /// least the SECONDS of its session, or 15 s where it names none; at most an hour.
    pub fn declared_seconds(&self) -> u32 {
        let least = match &self.session {
            SessionMark::Open => 0,
            SessionMark::Term(stamp) => stamp.seconds,
            SessionMark::Absent | SessionMark::Unreadable(_) => UNDECLARED_DURATION_SECONDS,
        };
        declared(self.duration_seconds, least)
    }

    /// Whether `other` is the same record. Only these fields count: a change of other metadata is no sign of life.
    pub fn is_same_record(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.holder == other.holder
            && self.duration_seconds == other.duration_seconds
            && self.acquire_time == other.acquire_time
            && self.renew_time == other.renew_time
            && self.transitions == other.transitions
            && self.session == other.session
    }
}

impl SessionMark {
    /// Reads the annotation; any text has a reading.
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
mod tests {
    use super::*;

    #[test]
    fn a_session_mark_reads_what_it_writes() {
        for text in ["open", "pod.abc.4026.17ff/3/15", "x/0/0", "garbage", "a/b/c", "/1/15", "1/15", ""] {
            assert_eq!(SessionMark::read(Some(text)).to_string(), text);
        }
        let mark = SessionMark::read(Some("pod.abc.4026.17ff/3/15"));
        assert_eq!(
            mark.stamp().map(|stamp| (stamp.session.as_str(), stamp.term, stamp.seconds)),
            Some(("pod.abc.4026.17ff", 3, 15))
        );
        assert_eq!(SessionMark::read(Some("a/-1/15")).stamp(), None);
    }

    #[test]
    fn only_a_session_of_four_parts_names_a_place() {
        assert_eq!(SessionStamp::place("pod.web.4026.17ff"), Some("pod.web.4026"));
        for session in ["", "17ff", "a.b.c", "a.b.c.", "a..c.d", ".b.c.d", "a.b.c.d.e"] {
            assert_eq!(SessionStamp::place(session), None, "{session:?}");
        }
    }

    #[test]
    fn an_empty_record_without_the_mark_is_not_given_up() {
        let mut record = LeaseRecord { duration_seconds: 15, ..LeaseRecord::default() };
        assert!(!record.is_given_up());
        record.duration_seconds = 1;
        assert!(record.is_given_up());
        record.duration_seconds = 15;
        record.session = SessionMark::Open;
        assert!(record.is_given_up());
        record.holder = Some("a".to_owned());
        assert!(!record.is_given_up());
        assert!(record.is_grant());
    }

    #[test]
    fn a_range_that_reaches_the_end_of_all_times_has_no_end_to_go_by() {
        let ends = |renewed| LeaseRecord { renew_time: Some(renewed), ..LeaseRecord::as_created() }.range_end();
        let second = Duration::from_secs(1);
        let before = |micros| WireTime::from_micros(WireTime::MAX.as_micros() - micros);
        assert_eq!(ends(WireTime::MAX), None);
        assert_eq!(ends(before(15_000_000)), None, "it would be the last of times");
        assert_eq!(ends(before(16_000_000)).map(|end| end.after(second)), Some(WireTime::MAX));
        let open =
            |renewed| LeaseRecord { session: SessionMark::Open, renew_time: Some(renewed), ..LeaseRecord::default() };
        assert_eq!(open(WireTime::MAX).range_end(), None);
        assert_eq!(open(before(1)).range_end(), Some(before(1)));
    }
}
