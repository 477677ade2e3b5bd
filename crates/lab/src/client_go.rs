//! Models client-go's electors at the level of records: when an elector writes the Lease or its candidate, and what.
//!
//! client-go has no sessions. It compares only the name of the holder, keeps annotations and labels, and polls the
//! Lease once per retry period. It waits for the lease duration of each version, counted from its own observation of
//! that version. It exits when it has not renewed for the renew deadline. All of that is the same in its two modes. In
//! both modes two client-go electors may lead at the same time; that is a property of client-go.
//!
//! Its release is blind: it reads the Lease afresh, but decides by the record that it read or wrote before. If it has
//! lost the Lease unobserved, it empties the Lease of its successor.

use std::time::Duration;

use hustings_core::model::{CandidateRecord, LeaseRecord, Moment, NativeFields, Now, WireTime};

/// client-go's default retry period, which is its shortest pause between two attempts.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// Its longest pause between two attempts: jitter adds up to 1.2 retry periods.
pub const LONGEST_RETRY: Duration = Duration::from_millis(4_400);

/// client-go's default renew deadline.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// How often the owner of a candidate renews it without a ping.
const RENEWS_CANDIDATE_EVERY: Duration = Duration::from_mins(5);

/// How often client-go's rate limit lets it answer a ping that stays ahead of its clock.
const ANSWERS_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// How an elector of client-go stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// With `Coordinated: true`: by a native candidate. It takes up what a controller grants, stops renewing while
    /// `spec.preferredHolder` is set, and so gives the Lease up at its renew deadline.
    Coordinated,
    /// Without a candidate: it claims a free Lease itself. Each of its writes removes the native fields.
    Plain,
}

/// One elector of client-go, in a process that exits when it loses.
#[derive(Clone, Debug)]
pub struct ClientGo {
    identity: String,
    stands: Stands,
    lease_seconds: u32,
    /// The version of the Lease that it read last, and when it first read that version.
    observed: Option<(LeaseRecord, Moment)>,
    polls_at: Moment,
    /// Whether the record that it read or wrote last names it.
    believes_to_hold: bool,
    /// When it gives up unless it renews before then; `None` while it does not lead.
    leads_until: Option<Moment>,
    renews_candidate_at: Moment,
    /// When it will again answer a ping that is ahead of its clock.
    answers_again_at: Option<Moment>,
}

/// What an elector of client-go does with the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// It waits.
    Wait,
    /// It takes the Lease up, or claims it.
    Begin(LeaseRecord),
    /// It renews.
    Renew(LeaseRecord),
    /// It releases the Lease and exits.
    Release(LeaseRecord),
    /// It exits. The Lease does not name it.
    Exit,
}

/// How long an elector of client-go leaves this version to its holder, after it has first observed it.
pub fn lasts(lease: &LeaseRecord) -> Duration {
    Duration::from_secs(u64::from(lease.duration_seconds))
}

impl ClientGo {
    /// An elector that starts now.
    pub fn new(identity: &str, stands: Stands, lease_seconds: u32, now: Now) -> Self {
        Self {
            identity: identity.to_owned(),
            stands,
            lease_seconds,
            observed: None,
            polls_at: now.moment,
            believes_to_hold: false,
            leads_until: None,
            renews_candidate_at: now.moment.after(RENEWS_CANDIDATE_EVERY),
            answers_again_at: None,
        }
    }

    /// How it stands.
    pub const fn stands(&self) -> Stands {
        self.stands
    }

    /// Its lease duration.
    pub const fn lease_seconds(&self) -> u32 {
        self.lease_seconds
    }

    /// Whether it believes that it leads.
    pub fn leads(&self, now: Moment) -> bool {
        self.leads_until.is_some_and(|until| now < until)
    }

    /// When its next step is due.
    pub fn next_at(&self) -> Moment {
        let next = self.polls_at.min(self.leads_until.unwrap_or(Moment::NEVER));
        let candidate = self.renews_candidate_at.min(self.answers_again_at.unwrap_or(Moment::NEVER));
        if self.stands == Stands::Coordinated { next.min(candidate) } else { next }
    }

    /// What it does with the Lease now.
    pub fn poll(&mut self, lease: Option<&LeaseRecord>, now: Now) -> Move {
        let given_up = self.leads_until.is_some_and(|until| until <= now.moment);
        if now.moment < self.polls_at && !given_up {
            return Move::Wait;
        }
        if given_up {
            return self.stop(lease, now);
        }
        self.polls_at = now.moment.after(RETRY_PERIOD);
        self.observe(lease, now.moment);
        let is_mine = self.is_mine(lease);
        let Some(next) = self.next_record(lease, is_mine, now) else { return Move::Wait };
        let begins = self.leads_until.is_none();
        self.believes_to_hold = true;
        self.observed = None;
        self.leads_until = Some(self.polls_at.after(RENEW_DEADLINE));
        if begins { Move::Begin(next) } else { Move::Renew(next) }
    }

    /// Stops, as a process does on SIGTERM, or gives up: releases the Lease if the last record that it observed names
    /// it, whatever the Lease names now.
    pub fn stop(&mut self, lease: Option<&LeaseRecord>, now: Now) -> Move {
        self.leads_until = None;
        let releases = std::mem::take(&mut self.believes_to_hold);
        match lease.filter(|_| releases) {
            None => Move::Exit,
            Some(lease) => Move::Release(LeaseRecord {
                holder: None,
                duration_seconds: 1,
                acquire_time: Some(now.wall),
                renew_time: Some(now.wall),
                native: NativeFields::default(),
                ..lease.clone()
            }),
        }
    }

    /// The time with which it answers a ping, or renews its candidate without a ping. It writes the time of its own
    /// clock, even if the former time was later. It answers a ping only if the ping is later than its own last time. So
    /// it answers a ping that is ahead of its clock again and again.
    ///
    /// # Panics
    /// Panics if a candidate without `renewTime` is pinged: a process of client-go panics then, too.
    pub fn renews_candidate(&mut self, candidate: &CandidateRecord, now: Now) -> Option<WireTime> {
        let is_pinged = candidate.ping_time.is_some() && candidate.ping_time > candidate.renew_time;
        let is_due = now.moment >= self.renews_candidate_at;
        if self.stands == Stands::Plain || !(is_pinged || is_due) {
            self.answers_again_at = None;
            return None;
        }
        if self.answers_again_at.is_some_and(|at| now.moment < at) {
            return None;
        }
        assert!(
            candidate.renew_time.is_some() || !is_pinged,
            "the process of {} dies: client-go reads the missing renewTime of a pinged candidate",
            self.identity
        );
        self.renews_candidate_at = now.moment.after(RENEWS_CANDIDATE_EVERY);
        // Some time passes between two writes.
        let is_repeated = candidate.renew_time == Some(now.wall);
        let wall = if is_repeated { now.wall.after(Duration::from_micros(2)) } else { now.wall };
        let is_ahead = candidate.ping_time > Some(wall);
        self.answers_again_at = is_ahead.then(|| now.moment.after(ANSWERS_AGAIN_AFTER));
        Some(wall)
    }

    fn is_mine(&self, lease: Option<&LeaseRecord>) -> bool {
        lease.is_some_and(|lease| lease.holder.as_deref() == Some(&self.identity))
    }

    fn observe(&mut self, lease: Option<&LeaseRecord>, now: Moment) {
        self.believes_to_hold = if lease.is_some() { self.is_mine(lease) } else { self.believes_to_hold };
        match lease {
            Some(lease) if self.observed.as_ref().is_none_or(|(observed, _)| observed != lease) => {
                self.observed = Some((lease.clone(), now));
            }
            _ => {}
        }
    }

    /// The record that it writes, if it may write one.
    fn next_record(&self, lease: Option<&LeaseRecord>, is_mine: bool, now: Now) -> Option<LeaseRecord> {
        let is_expired =
            self.observed.as_ref().is_some_and(|(observed, since)| now.moment > since.after(lasts(observed)));
        let native = match (self.stands, lease) {
            (Stands::Coordinated, None) => return None,
            (Stands::Coordinated, Some(lease)) => {
                if !is_mine || is_expired || lease.native.preferred_holder.is_some() {
                    return None;
                }
                NativeFields { preferred_holder: None, ..lease.native.clone() }
            }
            (Stands::Plain, Some(lease)) if lease.holder.is_some() && !is_mine && !is_expired => return None,
            (Stands::Plain, _) => NativeFields::default(),
        };
        let lease = lease.cloned().unwrap_or_default();
        let (acquire_time, transitions) = if is_mine {
            (lease.acquire_time, lease.transitions)
        } else {
            let claims = u32::from(!lease.uid.is_empty());
            (Some(now.wall), lease.transitions.saturating_add(claims))
        };
        Some(LeaseRecord {
            holder: Some(self.identity.clone()),
            duration_seconds: self.lease_seconds,
            acquire_time,
            renew_time: Some(now.wall),
            transitions,
            native,
            ..lease
        })
    }
}

#[cfg(test)]
mod tests {
    use hustings_core::model::SessionMark;

    use super::*;

    fn at(seconds: i64) -> Now {
        Now { moment: Moment::from_micros(seconds * 1_000_000), wall: WireTime::from_micros(seconds * 1_000_000) }
    }

    fn lease(holder: &str) -> LeaseRecord {
        let holder = Some(holder.to_owned()).filter(|holder| !holder.is_empty());
        LeaseRecord { uid: "u".to_owned(), holder, duration_seconds: 15, ..LeaseRecord::default() }
    }

    #[test]
    fn a_coordinated_elector_claims_no_free_lease_and_takes_up_its_grant() {
        let mut elector = ClientGo::new("a", Stands::Coordinated, 15, at(0));
        assert_eq!(elector.poll(None, at(0)), Move::Wait);
        assert_eq!(elector.poll(Some(&lease("")), at(2)), Move::Wait);
        let granted = LeaseRecord { acquire_time: Some(at(3).wall), ..lease("a") };
        let Move::Begin(begun) = elector.poll(Some(&granted), at(4)) else { panic!("it takes up") };
        assert_eq!((begun.acquire_time, begun.renew_time), (granted.acquire_time, Some(at(4).wall)));
        assert!(elector.leads(at(15).moment) && !elector.leads(at(16).moment));
    }

    #[test]
    fn a_coordinated_elector_that_is_asked_to_hand_over_gives_up_twelve_seconds_after_its_last_renewal() {
        let mut elector = ClientGo::new("a", Stands::Coordinated, 15, at(0));
        assert!(matches!(elector.poll(Some(&lease("a")), at(0)), Move::Begin(_)));
        let asked = LeaseRecord {
            native: NativeFields { strategy: None, preferred_holder: Some("b".to_owned()) },
            ..lease("a")
        };
        assert_eq!(elector.poll(Some(&asked), at(2)), Move::Wait);
        assert_eq!(elector.next_at(), at(4).moment);
        let Move::Release(released) = elector.poll(Some(&asked), at(12)) else { panic!("it releases") };
        assert_eq!((released.holder, released.duration_seconds), (None, 1));
    }

    #[test]
    fn a_release_is_decided_by_the_last_observation_and_written_to_the_current_lease() {
        let mut elector = ClientGo::new("a", Stands::Plain, 15, at(0));
        assert!(matches!(elector.poll(Some(&lease("")), at(0)), Move::Begin(_)));
        let successor = LeaseRecord { session: SessionMark::read(Some("s-b/1/15")), ..lease("b") };
        let Move::Release(released) = elector.stop(Some(&successor), at(20)) else { panic!("it releases blindly") };
        assert_eq!(
            (released.holder, released.duration_seconds, released.session),
            (None, 1, successor.session.clone())
        );
        let mut observer = ClientGo::new("a", Stands::Plain, 15, at(0));
        assert!(matches!(observer.poll(Some(&lease("")), at(0)), Move::Begin(_)));
        assert_eq!(observer.poll(Some(&successor), at(2)), Move::Wait);
        assert_eq!(observer.stop(Some(&successor), at(3)), Move::Exit, "it has observed its successor");
    }

    #[test]
    fn a_ping_ahead_of_its_clock_is_answered_again_and_again() {
        let mut elector = ClientGo::new("a", Stands::Coordinated, 15, at(0));
        let mut candidate = CandidateRecord { ping_time: Some(at(9).wall), ..CandidateRecord::default() };
        candidate.renew_time = Some(at(8).wall);
        let moment = |millis: i64| Now { moment: Moment::from_micros(millis * 1000), wall: at(1).wall };
        let answers: Vec<i64> =
            (0..500).filter(|millis| elector.renews_candidate(&candidate, moment(*millis)).is_some()).collect();
        assert_eq!(answers, [0, 200, 400]);
        candidate.ping_time = candidate.renew_time;
        assert_eq!(elector.renews_candidate(&candidate, moment(600)), None);
    }

    #[test]
    fn a_plain_elector_claims_an_expired_lease_and_counts_the_transition() {
        let mut elector = ClientGo::new("a", Stands::Plain, 15, at(0));
        assert_eq!(elector.poll(Some(&lease("b")), at(0)), Move::Wait);
        assert_eq!(elector.poll(Some(&lease("b")), at(15)), Move::Wait);
        let Move::Begin(begun) = elector.poll(Some(&lease("b")), at(17)) else { panic!("it claims") };
        assert_eq!((begun.transitions, begun.acquire_time), (1, Some(at(17).wall)));
    }
}
