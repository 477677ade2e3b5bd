//! The commands for acts of administrators.

use datadriven::TestCase;
use hustings_core::model::{Annotation, LeaseRecord, Pin, Transfer, Unparsed, WireTime};

use crate::election_world::World;
use crate::words::{name, signed_seconds, word};

/// Writes the acts of an administrator in this command on the Lease.
pub(crate) fn acts(world: &World, case: &mut TestCase, record: &mut LeaseRecord) {
    let acts = &mut record.acts;
    if let Some(text) = word(case, "hold-until") {
        acts.hold_until = Some(end(world, &text).map_or(Annotation::Malformed(text), Annotation::Valid));
    }
    if let Some(to) = word(case, "transfer") {
        acts.transfer = Some(Transfer::read(&to));
    }
    if let Some(candidate) = word(case, "pin") {
        let until = word(case, "pin-until").unwrap_or_default();
        acts.pin = Some(end(world, &until).map_or_else(
            || Annotation::Malformed(format!("{candidate} until {until}")),
            |until| Annotation::Valid(Pin { candidate: candidate.clone(), until }),
        ));
    }
    if let Some(name) = word(case, "asked-by") {
        acts.asked_by = Some(name);
    }
    if case.args.remove("unpinned").is_some() {
        acts.pin = None;
    }
    if case.args.remove("untransferred").is_some() {
        acts.transfer = None;
    }
    if case.args.contains_key("unheld") {
        acts.hold_until = None;
    }
}

/// Answers the ping of a candidate with a text that is not a time, or with a time before the ping.
pub(crate) fn answer(world: &mut World, case: &mut TestCase) -> Result<(), String> {
    let (text, behind) = (word(case, "as"), word(case, "behind"));
    let behind = behind.map_or(Ok(0), |behind| signed_seconds(&behind))?;
    world.answer(&name(case)?, |record| {
        if let Some(text) = &text {
            (record.renew_time, record.unparsed) = (Some(WireTime::MAX), Unparsed::NONE.with("renewTime", text));
        } else {
            let ping = record.ping_time.unwrap_or_default().as_micros();
            record.renew_time = Some(WireTime::from_micros(ping - behind * 1_000_000));
        }
    });
    Ok(())
}

/// The end of an act after this duration from now; `None` if the text is not a duration.
pub(crate) fn end(world: &World, text: &str) -> Option<WireTime> {
    let seconds = signed_seconds(text).ok()?;
    Some(WireTime::from_micros(world.now().wall.as_micros() + seconds * 1_000_000))
}
