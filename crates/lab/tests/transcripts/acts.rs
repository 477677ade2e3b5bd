//! The commands for acts of administrators.

use datadriven::TestCase;
use hustings_core::assist::AssistOptions;
use hustings_core::model::{Annotation, LeaseRecord, Malformed, Pin, Transfer, Unparsed, WireTime};
use hustings_lab::Lab;

use crate::arguments::{flag, name, parse_micros, signed_micros, text};
use crate::election_world::World;

/// Writes the acts of an administrator in this command on the Lease.
pub(crate) fn acts(lab: &Lab, case: &mut TestCase, record: &mut LeaseRecord) {
    let acts = &mut record.acts;
    if let Some(text) = text(case, "hold-until") {
        acts.hold_until =
            Some(end(lab, &text).map_or_else(|| not_a_time("hustings.io/hold-until", text), Annotation::Valid));
    }
    if let Some(to) = text(case, "transfer") {
        acts.transfer = Some(Transfer::read(&to));
    }
    if let Some(candidate) = text(case, "pin") {
        let until = text(case, "pin-until").unwrap_or_default();
        acts.pin = Some(end(lab, &until).map_or_else(
            || not_a_time("hustings.io/pin", format!("{candidate} until {until}")),
            |until| Annotation::Valid(Pin { candidate: candidate.clone(), until }),
        ));
    }
    if let Some(name) = text(case, "asked-by") {
        acts.asked_by = Some(name);
    }
    let (is_assisted, malformed) = (flag(case, "assist"), text(case, "assist-malformed"));
    let [container, pod_namespace, pod_prefix] =
        ["in-container", "pod-namespace", "pod-prefix"].map(|option| text(case, option));
    if is_assisted {
        acts.assist = Some(Annotation::Valid(AssistOptions { container, pod_namespace, pod_prefix }));
    }
    if let Some(text) = malformed {
        let why = AssistOptions::read(&text).unwrap_err();
        acts.assist = Some(Annotation::Malformed(Malformed::new("hustings.io/assist", text, why)));
    }
    if flag(case, "unassisted") {
        acts.assist = None;
    }
    if flag(case, "unpinned") {
        acts.pin = None;
    }
    if flag(case, "untransferred") {
        acts.transfer = None;
    }
    if case.args.contains_key("unheld") {
        acts.hold_until = None;
    }
}

/// Answers the ping of a candidate with a text that is not a time, or with a time before the ping.
pub(crate) fn answer(world: &mut World, case: &mut TestCase) {
    let (text, behind) = (text(case, "as"), signed_micros(case, "behind"));
    world.answer(&name(case), |record| {
        if let Some(text) = &text {
            (record.renew_time, record.unparsed) = (Some(WireTime::MAX), Unparsed::NONE.with("renewTime", text));
        } else {
            let ping = record.ping_time.unwrap_or_default().as_micros();
            record.renew_time = Some(WireTime::from_micros(ping - behind.unwrap_or_default()));
        }
    });
}

/// An annotation whose end is not a time.
pub(crate) fn not_a_time<T>(annotation: &'static str, text: String) -> Annotation<T> {
    Annotation::Malformed(Malformed::new(annotation, text, "its end is not a time".to_owned()))
}

/// The end of an act after this duration from now; `None` if the text is not a duration.
pub(crate) fn end(lab: &Lab, text: &str) -> Option<WireTime> {
    Some(WireTime::from_micros(lab.wall().as_micros() + parse_micros(text)?))
}
