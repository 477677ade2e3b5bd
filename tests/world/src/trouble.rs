//! Random trouble between one process and the server, with adjustable rates.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::faults::{Answer, Arrival, Fate, Fates, Forgery, Piece};
use crate::webhook::Webhook;

/// The longest delay of a request or an answer when there is trouble.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// The shortest time for which the server waits for a webhook.
const SHORTEST_HANG: Duration = Duration::from_secs(10);

/// Everything that is counted.
pub const DISTURBANCES: [&str; 11] = [
    DELAY,
    LOST_REQUEST,
    LOST_ANSWER,
    SECOND_COPY,
    REFUSAL,
    FORGED,
    WRONG,
    WRONG_AFTER_EXECUTION,
    WRONG_EVENT,
    HUNG,
    BROKEN_WATCH,
];

const DELAY: &str = "delay";
const LOST_REQUEST: &str = "loss of a request";
const LOST_ANSWER: &str = "loss of an answer";
const SECOND_COPY: &str = "delivery of a second copy";
const REFUSAL: &str = "refusal";
const FORGED: &str = "forged 404";
const WRONG: &str = "wrong object with status 200";
const WRONG_AFTER_EXECUTION: &str = "wrong object with status 200 after the execution";
const WRONG_EVENT: &str = "wrong event of a watch";
const HUNG: &str = "webhook without an answer";
const BROKEN_WATCH: &str = "break of a watch";

/// The probability of each kind of trouble, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// A request or an answer takes up to half a minute.
    pub slow: u32,
    /// A request or an answer is lost.
    pub lost: u32,
    /// The server rejects the request, or reports a failure.
    pub refused: u32,
    /// A watch breaks off or falls silent.
    pub watch: u32,
    /// A proxy answers in the server's place: 404, or 200 with something else than the object.
    pub forged: u32,
    /// A write is delivered twice.
    pub repeated: u32,
}

/// Counts each kind of trouble. Clones are the same tally.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<BTreeMap<&'static str, u64>>>);

/// The trouble of one process. Clones are the same dial.
#[derive(Clone, Debug, Default)]
pub struct Dial(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    profile: Profile,
    /// How many of the next requests a proxy answers in the server's place.
    forged_next: u32,
    /// How it answers them: one proxy answers all requests alike.
    forgery: Option<Forgery>,
    /// How many of the next writes are delivered twice.
    repeated_next: u32,
}

/// Fates that follow a dial.
pub struct Trouble {
    dial: Dial,
    webhook: Webhook,
    tally: Tally,
    rng: StdRng,
}

impl Tally {
    /// The counts.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, what: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
    }
}

impl Profile {
    /// Random trouble.
    pub fn random(rng: &mut StdRng) -> Self {
        let mut some = |most: u32| if rng.random_bool(0.5) { rng.random_range(0..most) } else { 0 };
        let (slow, lost, refused, watch, forged) = (some(500), some(300), some(300), some(300), some(200));
        Self { slow, lost, refused, watch, forged, repeated: some(300) }
    }
}

impl Dial {
    /// Sets the trouble from now on.
    pub fn set(&self, profile: Profile) {
        *self.state() = State { profile, ..State::default() };
    }

    /// Makes a proxy answer the next `requests` requests in the server's place.
    pub fn forge_next(&self, requests: u32) {
        let mut state = self.state();
        (state.forged_next, state.forgery) = (requests, None);
    }

    /// Makes the next `writes` writes arrive twice.
    pub fn repeat_next(&self, writes: u32) {
        self.state().repeated_next = writes;
    }

    fn profile(&self) -> Profile {
        self.state().profile
    }

    /// How a proxy answers this request, if it does; `choose` decides that for its first request.
    fn forgery(&self, choose: impl FnOnce() -> Forgery) -> Option<Forgery> {
        let mut state = self.state();
        count_down(&mut state.forged_next).then(|| *state.forgery.get_or_insert_with(choose))
    }

    fn repeats(&self) -> bool {
        count_down(&mut self.state().repeated_next)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trouble {
    /// Trouble with the rates of `dial`, in front of a server with this webhook. `seed` determines it, and `tally`
    /// counts it.
    pub fn new(dial: Dial, webhook: Webhook, tally: Tally, seed: u64) -> Self {
        Self { dial, webhook, tally, rng: StdRng::seed_from_u64(seed) }
    }

    fn happens(&mut self, in_a_thousand: u32) -> bool {
        in_a_thousand > 0 && self.rng.random_range(0..1000) < in_a_thousand
    }

    fn delay(&mut self, slow: u32) -> Duration {
        if self.happens(slow) {
            self.tally.count(DELAY);
            self.rng.random_range(Duration::ZERO..LONGEST_DELAY)
        } else {
            Duration::from_millis(self.rng.random_range(1..=5))
        }
    }
}

/// Decrements `left`. Returns whether it was above 0.
fn count_down(left: &mut u32) -> bool {
    let is_left = *left > 0;
    *left -= u32::from(is_left);
    is_left
}

impl Fates for Trouble {
    fn of_request(&mut self, method: &Method, path: &str, _: bool) -> Fate {
        let profile = self.dial.profile();
        let mut fate = Fate::good(self.delay(profile.slow), self.delay(profile.slow));
        let any = |rng: &mut StdRng| *Forgery::ALL.choose(rng).unwrap_or(&Forgery::Page);
        let mut forgery = self.dial.forgery(|| any(&mut self.rng));
        if forgery.is_none() && self.happens(profile.forged) {
            forgery = Some(any(&mut self.rng));
        }
        if let Some(forgery) = forgery {
            let is_executed = forgery.is_success() && self.rng.random_bool(0.5);
            self.tally.count(match forgery.is_success() {
                false => FORGED,
                true if is_executed => WRONG_AFTER_EXECUTION,
                true => WRONG,
            });
            if is_executed {
                fate.answer = Answer::Replaced(forgery);
            } else {
                fate.arrival = Arrival::Forged(forgery);
            }
        } else if let Some(rule) = self.webhook.rule(method, path) {
            self.tally.count(HUNG);
            fate.outward += self.rng.random_range(SHORTEST_HANG..LONGEST_DELAY);
            fate.arrival = if rule.fails { Arrival::Refused(500) } else { Arrival::Executed };
        } else if self.happens(profile.lost) {
            self.tally.count(LOST_REQUEST);
            fate.arrival = Arrival::Lost;
        } else if self.happens(profile.refused) {
            self.tally.count(REFUSAL);
            let code = [409, 429, 500, 503, 504].choose(&mut self.rng).copied().unwrap_or(500);
            fate.arrival = Arrival::Refused(code);
        }
        if *method != Method::GET
            && fate.arrival == Arrival::Executed
            && (self.dial.repeats() || self.happens(profile.repeated))
        {
            self.tally.count(SECOND_COPY);
            fate.repeated_after = Some(self.rng.random_range(Duration::ZERO..LONGEST_DELAY));
        }
        if self.happens(profile.lost) {
            self.tally.count(LOST_ANSWER);
            fate.answer = if self.rng.random_bool(0.5) { Answer::Broken } else { Answer::Silence };
        }
        fate
    }

    fn of_piece(&mut self, _: &str) -> Piece {
        let profile = self.dial.profile();
        if self.happens(profile.watch) {
            self.tally.count(BROKEN_WATCH);
            if self.rng.random_bool(0.5) { Piece::Broken } else { Piece::Silence }
        } else if self.happens(profile.forged) {
            self.tally.count(WRONG_EVENT);
            Piece::Replaced(*Forgery::ALL.choose(&mut self.rng).unwrap_or(&Forgery::Page))
        } else {
            Piece::After(self.delay(profile.slow))
        }
    }
}
