//! One process: an elector, its clock, and its requests.

use std::hash::Hash;
use std::time::Duration;

use hustings_core::elector::{
    Action, Config, Draw, Durations, Elector, ElectorMode, FailOpen, Leading, Observation, Outcome, Source, Timing,
};
use hustings_core::model::{LeaseRecord, LeaseWrite, Moment, Now, Purpose, Request, SessionMark, Set, WireTime};

use crate::canonical::{CanonicalHasher, FIRST_LOCAL_MICROS, FIRST_VERSION, FIRST_WALL_MICROS};
use crate::client_go::ClientGo;

/// The one Lease.
pub(crate) const LEASE: &str = "lease";

/// The clocks of one process. The local clock may run too fast or too slow. All processes share one wall clock, because
/// no process compares a timestamp with its own wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Clock {
    /// How many parts per million the local clock is too fast.
    pub(crate) fast_ppm: i64,
    /// The unit of true time.
    pub(crate) tick_micros: i64,
}

/// The configuration of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The identity. Two processes may have the same one.
    pub identity: &'static str,
    /// How many parts per million its clock is too fast.
    pub fast_ppm: i64,
    /// Its preference.
    pub key: Option<i64>,
    /// Whether it claims the Lease itself or needs a grant.
    pub mode: ElectorMode,
    /// Its rule.
    pub rule: Rule,
    /// The place whose lock at most one process holds at a time.
    pub place: Option<u8>,
}

/// The rule that an elector follows: the product's, or a mistake that the models must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The elector as it is.
    Hustings,
    /// client-go's.
    ClientGo,
    /// Validity counts from the answer instead of the sending.
    CountsFromAnswer,
    /// It treats any version with its name as its own last write.
    RecognisesByName,
    /// A missing Lease is free, whatever was observed before.
    ClaimsDeletedAtOnce,
    /// A Lease lasts as long as its newest version declares.
    ObeysShrunkDuration,
    /// Its writes are not conditional on a version.
    WritesUnconditionally,
    /// It renews only while its candidate's status says Holder.
    RenewsWhileCalledHolder,
    /// It uses `leaseTransitions` as its token.
    CountsTermsForTokens,
}

#[allow(clippy::large_enum_variant, reason = "there are few of them")]
#[derive(Clone, Debug, PartialEq, Eq)]
enum StateMachine {
    Hustings(Box<Elector>),
    ClientGo(ClientGo),
}

/// A request, from its sending to the arrival of its answer.
#[allow(clippy::large_enum_variant, reason = "there are few of them")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flight {
    Sent { action: Action, at: Moment },
    Answered { observation: Observation, at: Moment },
}

/// What a watch showed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shown {
    Nothing,
    Version(u64),
    Missing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    machine: StateMachine,
    rule: Rule,
    identity: &'static str,
    pub(crate) session: String,
    pub(crate) clock: Clock,
    /// The published leadership, which its readers use.
    leading: Option<Leading>,
    deadline: Option<Moment>,
    pub(crate) flights: Vec<Flight>,
    pub(crate) shown: Shown,
    /// Whether it has observed the Lease in a state other than given up.
    pub(crate) saw_held: bool,
    /// The term and renew time of its last write.
    last_write: Option<(SessionMark, WireTime)>,
}

impl Shown {
    /// Whether the watch has a newer version to show.
    pub(crate) const fn is_older_than(self, version: u64) -> bool {
        match self {
            Self::Version(shown) => shown < version,
            Self::Nothing | Self::Missing => true,
        }
    }

    /// The state after the process has observed this version by any means.
    pub(crate) fn newest(self, version: u64) -> Self {
        Self::Version(if let Self::Version(known) = self { known.max(version) } else { version })
    }
}

impl Flight {
    /// Whether it may still write the Lease.
    pub(crate) const fn is_write_on_its_way(&self) -> bool {
        let Self::Sent { action: Action::Send { request, .. }, .. } = self else { return false };
        matches!(request, Request::WriteLease { .. } | Request::CreateLease { .. })
    }

    pub(crate) const fn sent_at(&self) -> Moment {
        match self {
            Self::Sent { at, .. } | Self::Answered { at, .. } => *at,
        }
    }

    fn hash_into(&self, hasher: &mut CanonicalHasher, with_ages: bool) {
        match self {
            Self::Sent { action, .. } => (0_u8, action).hash(hasher),
            Self::Answered { observation, .. } => (1_u8, observation).hash(hasher),
        }
        if with_ages {
            self.sent_at().hash(hasher);
        }
    }
}

impl Process {
    /// A new process with this configuration. No other process ever has the same `session`.
    pub(crate) fn start(seat: &Seat, session: String, durations: Durations, tick_micros: i64, ticks: i64) -> Self {
        let clock = Clock { fast_ppm: seat.fast_ppm, tick_micros };
        let now = clock.at(ticks);
        let machine = if seat.rule == Rule::ClientGo {
            StateMachine::ClientGo(ClientGo::new(seat.identity, durations, now))
        } else {
            let mut elector = Elector::new(config(seat, &session, durations), now);
            elector.observe(now, Observation::Key(seat.key));
            StateMachine::Hustings(Box::new(elector))
        };
        let mut process = Self {
            machine,
            rule: seat.rule,
            identity: seat.identity,
            session,
            clock,
            leading: None,
            deadline: None,
            flights: Vec::new(),
            shown: Shown::Nothing,
            saw_held: false,
            last_write: None,
        };
        process.decide(ticks);
        process
    }

    pub(crate) fn now(&self, ticks: i64) -> Now {
        self.clock.at(ticks)
    }

    /// What `is_leader()` is based on at this instant; `None` if this process does not lead.
    pub(crate) fn reads_leading(&self, ticks: i64) -> Option<Leading> {
        self.leading.filter(|leading| self.now(ticks).moment < leading.valid_until)
    }

    /// Whether its deadline has come.
    pub(crate) fn is_due(&self, ticks: i64) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= self.now(ticks).moment)
    }

    pub(crate) fn writes_unconditionally(&self) -> bool {
        self.rule == Rule::WritesUnconditionally
    }

    pub(crate) fn renews_while_called_holder(&self) -> bool {
        self.rule == Rule::RenewsWhileCalledHolder
    }

    /// Whether its watch has news. client-go's elector has no watch.
    pub(crate) fn has_news(&self, lease: Option<&LeaseRecord>) -> bool {
        match (&self.machine, lease) {
            (StateMachine::ClientGo(_), _) => false,
            (_, Some(record)) => self.shown.is_older_than(record.resource_version),
            (_, None) => self.shown != Shown::Missing,
        }
    }

    pub(crate) fn observe(&mut self, ticks: i64, mut observation: Observation) {
        if let Some(record) = record_of(&mut observation) {
            self.saw_held |= !record.is_given_up();
            self.shown = self.shown.newest(record.resource_version);
        }
        if matches!(observation, Observation::LeaseMissing { .. }) {
            self.shown = Shown::Missing;
        }
        self.err(ticks, &mut observation);
        let now = self.now(ticks);
        match &mut self.machine {
            StateMachine::Hustings(elector) => elector.observe(now, observation),
            StateMachine::ClientGo(client_go) => client_go.observe(now, observation),
        }
        self.decide(ticks);
    }

    pub(crate) fn decide(&mut self, ticks: i64) {
        let now = self.now(ticks);
        let (actions, leading, deadline) = match &mut self.machine {
            StateMachine::ClientGo(client_go) => client_go.decide(now),
            StateMachine::Hustings(elector) => {
                let decision = elector.decide(now, Draw(0));
                (decision.actions, decision.leading, decision.deadline)
            }
        };
        self.publish(leading, now.moment);
        self.deadline = deadline;
        for action in actions {
            if let Action::Send { request: Request::WriteLease { write, .. }, .. } = &action {
                self.remember(write);
            }
            self.flights.push(Flight::Sent { action, at: now.moment });
        }
    }

    /// How long ago a request was sent.
    pub(crate) fn age_ticks(&self, flight: &Flight, ticks: i64) -> i64 {
        let age = self.now(ticks).moment.since(flight.sent_at()).as_micros();
        let tick = self.clock.tick_micros;
        i64::try_from(age).unwrap_or(i64::MAX).saturating_add(tick / 2) / tick
    }

    /// Drops requests that have timed out. A read has no further effect, and the answer to a write shows no more than
    /// the watch. A write that was not executed may still be executed.
    pub(crate) fn drop_late_flights(&mut self, ticks: i64, timeout: Duration) {
        let now = self.now(ticks).moment;
        self.flights.retain(|flight| {
            let is_work = matches!(flight, Flight::Sent { action: Action::StopWork, .. });
            flight.is_write_on_its_way() || is_work || now < flight.sent_at().after(timeout)
        });
    }

    pub(crate) fn hash_into(&self, hasher: &mut CanonicalHasher, ticks: i64, with_ages: bool) {
        let hasher = hasher.of(&self.session, self.now(ticks).moment.as_micros(), self.clock.local_tick_micros());
        match &self.machine {
            StateMachine::Hustings(elector) => hasher.spell_without(elector.config(), elector),
            StateMachine::ClientGo(client_go) => client_go.hash(hasher),
        }
        self.session.hash(hasher);
        (&self.leading, self.deadline, self.shown, self.saw_held).hash(hasher);
        for flight in &self.flights {
            flight.hash_into(hasher, with_ages);
        }
        if self.rule == Rule::RecognisesByName {
            self.last_write.hash(hasher);
        }
    }

    fn publish(&mut self, mut leading: Option<Leading>, now: Moment) {
        if let (Rule::CountsTermsForTokens, Some(leading)) = (self.rule, &mut leading) {
            // As a version, the token is hashed by its order.
            leading.token = FIRST_VERSION + u64::from(leading.number);
        }
        let former = std::mem::replace(&mut self.leading, leading);
        if let (Rule::CountsFromAnswer, Some(leading), StateMachine::Hustings(elector)) =
            (self.rule, &mut self.leading, &self.machine)
        {
            // Only an answer extends the validity, and it has just arrived.
            let late = now.after(elector.config().timing.renew_deadline());
            let prolonged =
                |former: &Leading| former.token != leading.token || former.valid_until < leading.valid_until;
            leading.valid_until = former.filter(|former| !prolonged(former)).map_or(late, |former| former.valid_until);
        }
    }

    fn remember(&mut self, write: &LeaseWrite) {
        let (Set::To(renew_time), Purpose::TakeUp | Purpose::Claim | Purpose::Renew) =
            (&write.renew_time, write.purpose)
        else {
            return;
        };
        let former = self.last_write.take().map(|(mark, _)| mark);
        let mark = if let Set::To(mark) = &write.session { Some(mark.clone()) } else { former };
        self.last_write = mark.map(|mark| (mark, *renew_time));
    }

    /// Applies the planted mistakes to an observation.
    fn err(&mut self, ticks: i64, observation: &mut Observation) {
        let is_live_miss = matches!(observation, Observation::LeaseMissing { source: Source::Read(_) });
        let record = record_of(observation);
        let forgets = match (self.rule, record) {
            (Rule::RecognisesByName, Some(record)) => {
                if record.holder.as_deref() == Some(self.identity)
                    && !record.is_open()
                    && let Some((mark, renew_time)) = &self.last_write
                {
                    (record.session, record.renew_time) = (mark.clone(), Some(*renew_time));
                }
                false
            }
            (
                Rule::ObeysShrunkDuration,
                Some(LeaseRecord { session: SessionMark::Term(stamp), duration_seconds, .. }),
            ) if *duration_seconds < stamp.seconds => {
                stamp.seconds = *duration_seconds;
                true
            }
            (Rule::ClaimsDeletedAtOnce, None) => is_live_miss && std::mem::take(&mut self.saw_held),
            _ => false,
        };
        if let (true, None, StateMachine::Hustings(elector)) = (forgets, self.leading, &self.machine) {
            let fresh = Elector::new(elector.config().clone(), self.now(ticks));
            self.machine = StateMachine::Hustings(Box::new(fresh));
            self.flights.clear();
        }
    }
}

impl Clock {
    /// What the clocks show.
    pub(crate) const fn at(self, ticks: i64) -> Now {
        let micros = ticks * self.tick_micros;
        let local_micros = ticks * self.local_tick_micros();
        Now {
            moment: Moment::from_micros(FIRST_LOCAL_MICROS + local_micros),
            wall: WireTime::from_micros(FIRST_WALL_MICROS + micros),
        }
    }

    /// A tick, by the local clock.
    pub(crate) const fn local_tick_micros(self) -> i64 {
        self.tick_micros + self.tick_micros / 1_000_000 * self.fast_ppm
    }
}

fn config(seat: &Seat, session: &str, durations: Durations) -> Config {
    Config {
        identity: seat.identity.to_owned(),
        lease_name: LEASE.to_owned(),
        session: session.to_owned(),
        mode: seat.mode.clone(),
        timing: Timing::new(durations).expect("valid durations"),
        fail_open: FailOpen::Off,
        keeps_on_stop: false,
    }
}

fn record_of(observation: &mut Observation) -> Option<&mut LeaseRecord> {
    match observation {
        Observation::Lease { record, .. } | Observation::LeaseWritten { outcome: Outcome::Landed(record), .. } => {
            Some(record)
        }
        _ => None,
    }
}

/// Short durations, in which few events fit, with the smallest margins that are allowed.
pub fn short_durations() -> Durations {
    Durations {
        lease_duration_seconds: 3,
        renew_deadline: Duration::from_millis(2_970),
        retry_period: Duration::from_millis(450),
        jitter_percent: 0,
        request_timeout: Duration::from_millis(900),
        stop_grace: Duration::from_millis(1_900),
    }
}
