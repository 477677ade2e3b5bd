//! Decides which worlds are equal. Without this module no exploration would end, because time, versions and counters
//! grow forever.
//!
//! The derived `Hash` of the real states passes them to this hasher word by word. The hasher replaces each value that
//! only grows by its meaning. A moment becomes its distance from the present of its process. Versions, timestamps,
//! terms, numbers of requests and transitions become their ranks among values of their kind. The rule that must hold:
//! worlds with the same hash input behave the same from then on. The rules of the product allow that: they compare
//! moments with the present and with each other, and all other values only for equality and order. A test compares the
//! next steps of two such worlds.
//!
//! Without pings even less matters ([`Times::Equal`]): timestamps are only compared for equality, and events long past
//! are all equal.
//!
//! The start values of the counters ([`FIRST_VERSION`] and others) tell this module the kind of a value, so the models
//! must use them.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// Where the store's versions start.
pub(crate) const FIRST_VERSION: u64 = 1 << 40;

/// How many versions an object may have. The versions of the next object start after them; no rule compares the
/// versions of two objects.
pub(crate) const VERSIONS_OF_ONE: u64 = 1 << 36;

/// Where `leaseTransitions` start.
pub(crate) const FIRST_TRANSITION: u32 = 1 << 20;

/// Where every local clock starts, in microseconds. Lower values are keys.
pub(crate) const FIRST_LOCAL_MICROS: i64 = 1_000_000_000_000;

/// Where every wall clock starts, in microseconds. Local clocks stay below.
pub(crate) const FIRST_WALL_MICROS: i64 = 1_000_000_000_000_000;

/// Replaces a planned moment that has passed.
const OVER: i64 = i64::MIN / 2;

/// The kinds of values that are ranked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Versions of this object.
    Version(u64),
    Transition,
    /// Terms and requests of the session with this hash.
    Counter(u64),
    /// Timestamps.
    Wire,
    /// Events of this session that are older than any wait.
    Past(u64),
}

enum Word {
    Plain(u64),
    Ranked(Kind, i64),
    /// A timestamp that keeps its own value.
    Itself(i64),
}

/// Which properties of timestamps and of events long past matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// Which timestamps are equal.
    Equal,
    /// Their order, too.
    Ordered,
}

/// Collects the words of one world, then [passes](Self::pass_to) them to a real hasher.
pub(crate) struct CanonicalHasher {
    words: Vec<Word>,
    /// The hash of the session whose state is being hashed.
    session: u64,
    now_micros: i64,
    times: Times,
    /// The wall clock, which all processes share.
    wall_micros: i64,
    /// A tick, by the wall clock.
    wall_tick_micros: i64,
    /// A tick, by the clock of the process whose state is being hashed.
    tick_micros: i64,
    /// The longest wait. Of older events only the order matters.
    memory_micros: i64,
    /// The hash of the last text. A term that follows the text of a session belongs to that session.
    text: Option<u64>,
}

impl CanonicalHasher {
    pub(crate) fn new(times: Times, wall_micros: i64, wall_tick_micros: i64, memory_micros: i64) -> Self {
        let mut words = Vec::with_capacity(512);
        words.push(Word::Ranked(Kind::Wire, wall_micros));
        let (session, now_micros, tick_micros) = (0, 0, 1);
        Self {
            words,
            session,
            now_micros,
            times,
            wall_micros,
            wall_tick_micros,
            tick_micros,
            memory_micros,
            text: None,
        }
    }

    /// Begins the state of the process with this session, whose clock shows `now_micros`.
    pub(crate) fn of(&mut self, session: &str, now_micros: i64, tick_micros: i64) -> &mut Self {
        (self.session, self.now_micros, self.tick_micros) = (hash_of(session.as_bytes()), now_micros, tick_micros);
        self
    }

    /// Hashes `state` without `head`, its first field, which never changes.
    pub(crate) fn spell_without(&mut self, head: &impl Hash, state: &impl Hash) {
        let start = self.words.len();
        head.hash(self);
        let rest = self.words.len();
        self.words.truncate(start);
        state.hash(self);
        self.words.drain(start..rest);
    }

    pub(crate) fn pass_to(&self, hasher: &mut impl Hasher) {
        let mut ranks: BTreeMap<Kind, Vec<i64>> = BTreeMap::new();
        for word in &self.words {
            if let Word::Ranked(kind, value) = word {
                ranks.entry(*kind).or_default().push(*value);
            }
        }
        for values in ranks.values_mut() {
            values.sort_unstable();
            values.dedup();
        }
        let mut selves = Vec::new();
        for word in &self.words {
            match word {
                Word::Plain(value) => hasher.write_u64(*value),
                Word::Ranked(kind, value) => {
                    let rank = ranks.get(kind).and_then(|values| values.binary_search(value).ok());
                    rank.hash(hasher);
                }
                Word::Itself(value) => {
                    let place = selves.iter().position(|former| former == value);
                    place.hash(hasher);
                    selves.push(*value);
                }
            }
        }
    }

    fn ranked(&mut self, kind: Kind, value: i64) {
        self.text = None;
        self.words.push(Word::Ranked(kind, value));
    }

    fn plain(&mut self, value: u64) {
        self.text = None;
        self.words.push(Word::Plain(value));
    }
}

/// FNV-1a. It suffices, because the texts are few and short, and the models choose them.
fn hash_of(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Hasher for CanonicalHasher {
    fn write(&mut self, bytes: &[u8]) {
        let hash = hash_of(bytes);
        self.plain(hash);
        self.text = Some(hash);
    }

    fn write_u8(&mut self, value: u8) {
        // 0xff marks the end of a text.
        if value != 0xff {
            self.plain(u64::from(value));
        }
    }

    fn write_u32(&mut self, value: u32) {
        if value >= FIRST_TRANSITION {
            self.ranked(Kind::Transition, i64::from(value));
        } else {
            self.plain(u64::from(value));
        }
    }

    fn write_u64(&mut self, value: u64) {
        match value {
            0 => self.plain(0),
            FIRST_VERSION.. => self.ranked(Kind::Version(value / VERSIONS_OF_ONE), value.cast_signed()),
            _ => self.ranked(Kind::Counter(self.text.unwrap_or(self.session)), value.cast_signed()),
        }
    }

    fn write_i64(&mut self, value: i64) {
        match value {
            i64::MIN | i64::MAX => self.plain(value.cast_unsigned()),
            FIRST_WALL_MICROS.. => {
                let ahead = value - self.wall_micros;
                if (0..self.wall_tick_micros / 2).contains(&ahead) {
                    // It was written in this tick. Another process may write a later time in the same tick.
                    self.plain(ahead.cast_unsigned());
                } else if self.times == Times::Ordered {
                    self.ranked(Kind::Wire, value);
                } else {
                    self.text = None;
                    self.words.push(Word::Itself(value));
                }
            }
            ..FIRST_LOCAL_MICROS => self.plain(value.cast_unsigned()),
            _ => {
                let ahead = value - self.now_micros;
                // Events happen at ticks, so a moment between two ticks was planned. Once it has passed, its value does
                // not matter.
                let is_over = ahead <= 0 && ahead % self.tick_micros != 0;
                let is_long_past = ahead < -self.memory_micros;
                if is_long_past && !is_over && self.times == Times::Ordered {
                    self.ranked(Kind::Past(self.session), value);
                } else {
                    self.plain(if is_over || is_long_past { OVER } else { ahead }.cast_unsigned());
                }
            }
        }
    }

    fn write_usize(&mut self, value: usize) {
        self.plain(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.plain(value.cast_unsigned() as u64);
    }

    fn finish(&self) -> u64 {
        unreachable!("a hasher only spells")
    }
}
