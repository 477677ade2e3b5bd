//! Which acts of administrators are in force on a Lease, and which have ended.

use super::{Annotation, Hold, LeaseRecord, Pin, WireTime};

impl LeaseRecord {
    /// The pause that is in force at `wall`, by the clock of the caller.
    pub fn pause(&self, wall: WireTime) -> Option<Hold> {
        Hold::read(self.hold.as_deref()).filter(|_| self.is_paused() && !self.pause_has_ended(wall))
    }

    /// Whether the Lease records an administrator's pause, even one whose end has passed.
    pub fn is_paused(&self) -> bool {
        matches!(Hold::read(self.hold.as_deref()), Some(Hold::Pause(_)))
    }

    /// Whether the Lease still records an administrator's pause although its end has passed.
    pub fn pause_has_ended(&self, wall: WireTime) -> bool {
        self.is_paused() && self.pause_until().is_some_and(|until| until <= wall)
    }

    /// When the pause ends; `None` if it lasts until an administrator ends it.
    pub fn pause_until(&self) -> Option<WireTime> {
        self.acts.hold_until.as_ref()?.valid().copied()
    }

    /// The pin that is in force at `wall`, by the clock of the caller.
    pub fn pin(&self, wall: WireTime) -> Option<&Pin> {
        self.acts.pin.as_ref()?.valid().filter(|pin| wall < pin.until)
    }

    /// Whether the Lease still records a pin although its end has passed.
    pub fn pin_has_ended(&self, wall: WireTime) -> bool {
        self.acts.pin.as_ref().and_then(Annotation::valid).is_some_and(|pin| pin.until <= wall)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LeaseActs, Malformed};
    use super::*;

    const END: WireTime = WireTime::from_micros(5);
    const BEFORE: WireTime = WireTime::from_micros(4);

    fn lease(hold: &str, until: Option<Annotation<WireTime>>) -> LeaseRecord {
        let acts = LeaseActs { hold_until: until, ..LeaseActs::default() };
        LeaseRecord { hold: Some(hold.to_owned()), acts, ..LeaseRecord::default() }
    }

    #[test]
    fn a_pause_ends_at_its_time_and_a_pause_without_a_valid_time_does_not_end() {
        let pause = || Some(Hold::Pause("works".to_owned()));
        let ending = lease("works", Some(Annotation::Valid(END)));
        assert_eq!((ending.pause(BEFORE), ending.pause_has_ended(BEFORE)), (pause(), false));
        assert_eq!((ending.pause(END), ending.pause_has_ended(END)), (None, true));
        let malformed = Malformed::new("hustings.io/hold-until", "noon".to_owned(), String::new());
        for endless in [lease("works", None), lease("works", Some(Annotation::Malformed(malformed)))] {
            assert_eq!((endless.pause(WireTime::MAX), endless.pause_has_ended(WireTime::MAX)), (pause(), false));
        }
        let other = lease("disagreement", Some(Annotation::Valid(END)));
        assert_eq!((other.pause(BEFORE), other.pause_has_ended(END)), (None, false), "no administrator wrote it");
    }

    #[test]
    fn a_pin_ends_at_its_time() {
        let pin = Pin { candidate: "a".to_owned(), until: END };
        let acts = LeaseActs { pin: Some(Annotation::Valid(pin.clone())), ..LeaseActs::default() };
        let pinned = LeaseRecord { acts, ..LeaseRecord::default() };
        assert_eq!((pinned.pin(BEFORE), pinned.pin(END)), (Some(&pin), None));
    }
}
