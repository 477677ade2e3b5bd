//! Which worlds are the same: what lets an exploration end although time, versions and counters go on for ever.
//!
//! The derived `Hash` of the real states spells them out word by word, and this hasher reads along. It replaces what only
//! grows by what it means: a moment by its distance from its process's present, and versions, timestamps, terms, numbers
//! of requests and transitions by their ranks among those of their kind. The rule that must hold: worlds that are
//! spelled alike go on alike. It rests on what the rules do with these values: moments are compared with the present and
//! with each other, all others for equality and order only. A test compares the next steps of twins.
//!
//! The kinds are told apart by where their counters start ([`FIRST_VERSION`] and its like), which the models see to.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// Where the store's versions start.
pub(crate) const FIRST_VERSION: u64 = 1 << 40;

/// The unit of true time.
pub(crate) const TICK_MICROS: i64 = 1_000_000;

/// Where `leaseTransitions` start.
pub(crate) const FIRST_TRANSITION: u32 = 1 << 20;

/// Where every local clock starts, in microseconds. What is less is a key.
pub(crate) const FIRST_LOCAL_MICROS: i64 = 1_000_000_000_000;

/// Where every wall clock starts, in microseconds. Local clocks stay below.
pub(crate) const FIRST_WALL_MICROS: i64 = 1_000_000_000_000_000;

/// How a past moment is spelled that lies further back than anything waits.
const LONG_AGO: i64 = i64::MIN / 2;

/// What is ranked among its like.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Version,
    Transition,
    /// Terms and requests of the session with this hash.
    Counter(u64),
}

enum Word {
    Plain(u64),
    Ranked(Kind, i64),
    /// A timestamp, which stands for nothing but itself.
    Wire(i64),
}

/// Spells out one world, then [tells](Self::tell) it to a real hasher.
pub(crate) struct Speller {
    words: Vec<Word>,
    /// The hash of the session that speaks.
    session: u64,
    now_micros: i64,
    /// The wall clock, which is everybody's.
    wall_micros: i64,
    /// A tick, by that clock.
    tick_micros: i64,
    /// Beyond this a past moment makes no difference.
    memory_micros: i64,
    /// The hash of a text that was spelled just now: a term that follows it is that session's.
    text: Option<u64>,
}

impl Speller {
    pub(crate) fn new(wall_micros: i64, memory_micros: i64) -> Self {
        let words = Vec::with_capacity(512);
        Self { words, session: 0, now_micros: 0, wall_micros, tick_micros: 1, memory_micros, text: None }
    }

    /// What follows belongs to the process of this session, whose clock shows `now_micros`.
    pub(crate) fn of(&mut self, session: &str, now_micros: i64, tick_micros: i64) -> &mut Self {
        (self.session, self.now_micros, self.tick_micros) = (hash_of(session.as_bytes()), now_micros, tick_micros);
        self
    }

    /// Spells `state` without `head`, its first field, which never changes.
    pub(crate) fn spell_without(&mut self, head: &impl Hash, state: &impl Hash) {
        let start = self.words.len();
        head.hash(self);
        let rest = self.words.len();
        self.words.truncate(start);
        state.hash(self);
        self.words.drain(start..rest);
    }

    pub(crate) fn tell(&self, hasher: &mut impl Hasher) {
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
        let mut wires = Vec::new();
        for word in &self.words {
            match word {
                Word::Plain(value) => hasher.write_u64(*value),
                Word::Ranked(kind, value) => {
                    let rank = ranks.get(kind).and_then(|values| values.binary_search(value).ok());
                    rank.hash(hasher);
                }
                Word::Wire(value) => {
                    let place = wires.iter().position(|former| former == value);
                    place.hash(hasher);
                    wires.push(*value);
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

/// FNV-1a: the texts are few and short, and the models choose them.
fn hash_of(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Hasher for Speller {
    fn write(&mut self, bytes: &[u8]) {
        let hash = hash_of(bytes);
        self.plain(hash);
        self.text = Some(hash);
    }

    fn write_u8(&mut self, value: u8) {
        // The end of a text.
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
            FIRST_VERSION.. => self.ranked(Kind::Version, value.cast_signed()),
            _ => self.ranked(Kind::Counter(self.text.unwrap_or(self.session)), value.cast_signed()),
        }
    }

    fn write_i64(&mut self, value: i64) {
        match value {
            i64::MIN | i64::MAX => self.plain(value.cast_unsigned()),
            FIRST_WALL_MICROS.. => {
                let ahead = value - self.wall_micros;
                if (0..TICK_MICROS / 2).contains(&ahead) {
                    // Written in this tick, in which another writes a later one.
                    self.plain(ahead.cast_unsigned());
                } else {
                    self.text = None;
                    self.words.push(Word::Wire(value));
                }
            }
            ..FIRST_LOCAL_MICROS => self.plain(value.cast_unsigned()),
            _ => {
                let ahead = value - self.now_micros;
                // What happened, happened at a tick; what lies between two was planned, and once past is nothing but past.
                let is_over = ahead < -self.memory_micros || (ahead <= 0 && ahead % self.tick_micros != 0);
                self.plain(if is_over { LONG_AGO } else { ahead }.cast_unsigned());
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
        unreachable!("a speller only spells")
    }
}
