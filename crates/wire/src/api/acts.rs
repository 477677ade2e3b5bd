//! Acts of administrators on the wire: the annotations that a person or `hustings` writes.
//!
//! The first 1024 bytes of a text that does not parse are kept with the reason, so that the controller can report them.

#[cfg(feature = "controller")]
use hustings_core::assist::AssistOptions;
use hustings_core::model::{Annotation, CandidateActs, Exclusion, LeaseActs, Malformed, Pin, Transfer, WireTime};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::names;
#[cfg(feature = "controller")]
use super::pod_label::read_leader_label;
use super::reading::{annotation_text, cut};

/// The word between the candidate of a pin and its end.
const UNTIL: &str = " until ";

/// Reads the acts that a Lease records.
pub(super) fn lease_acts(metadata: &ObjectMeta) -> LeaseActs {
    let acts = LeaseActs {
        hold_until: read(metadata, names::HOLD_UNTIL, r#"use the form "2026-12-31T23:59:59Z""#, time),
        transfer: annotation_text(metadata, names::TRANSFER).map(|text| Transfer::read(&cut(text))),
        pin: read(metadata, names::PIN, r#"use the form "NAME until 2026-12-31T23:59:59Z""#, pin),
        asked_by: annotation_text(metadata, names::ASKED_BY).map(cut),
        ..LeaseActs::default()
    };
    #[cfg(feature = "controller")]
    let acts = LeaseActs {
        // Unlike other annotations, an empty one has a meaning.
        assist: metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(names::ASSIST))
            .map(|text| parsed(names::ASSIST, text, AssistOptions::read(text))),
        leader_label: annotation_text(metadata, names::LEADER_LABEL)
            .map(|text| Box::new(parsed(names::LEADER_LABEL, text, read_leader_label(text.trim())))),
        ..acts
    };
    acts
}

/// Reads the acts that a candidate of either API records.
pub(super) fn candidate_acts(metadata: &ObjectMeta) -> CandidateActs {
    CandidateActs {
        exclude: read(metadata, names::EXCLUDE, r#"use the form "2026-12-31T23:59:59Z: REASON""#, exclusion),
        asked_by: annotation_text(metadata, names::ASKED_BY).map(cut),
    }
}

/// Returns the text of `hustings.io/pin`.
pub fn pin_text(pin: &Pin) -> String {
    format!("{}{UNTIL}{}", pin.candidate, pin.until)
}

/// Returns the text of `hustings.io/exclude`.
fn exclusion_text(exclusion: &Exclusion) -> String {
    format!("{}: {}", exclusion.until, exclusion.reason)
}

/// Returns the merge patch that excludes a candidate, conditional on the version `resource_version`. With `None`, the
/// patch ends the exclusion.
pub fn exclusion_patch(resource_version: u64, exclusion: Option<&Exclusion>, asked_by: Option<&str>) -> Value {
    json!({ "metadata": {
        "resourceVersion": resource_version.to_string(),
        "annotations": {
            names::EXCLUDE: exclusion.map(exclusion_text),
            names::ASKED_BY: asked_by,
        },
    }})
}

/// Reads an annotation. `hint` says how to correct one that does not parse.
fn read<T>(
    metadata: &ObjectMeta,
    name: &'static str,
    hint: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<Annotation<T>> {
    let text = annotation_text(metadata, name)?;
    Some(parsed(name, text, parse(text).ok_or_else(|| hint.to_owned())))
}

fn parsed<T>(name: &'static str, text: &str, result: Result<T, String>) -> Annotation<T> {
    result.map_or_else(|why| Annotation::Malformed(Malformed::new(name, cut(text), cut(&why))), Annotation::Valid)
}

fn time(text: &str) -> Option<WireTime> {
    let time: Timestamp = text.trim().parse().ok()?;
    Some(WireTime::from_micros(time.as_microsecond()))
}

fn pin(text: &str) -> Option<Pin> {
    let (candidate, until) = text.split_once(UNTIL)?;
    let candidate = candidate.trim();
    let until = time(until)?;
    names::is_dns_subdomain(candidate).then(|| Pin { candidate: candidate.to_owned(), until })
}

fn exclusion(text: &str) -> Option<Exclusion> {
    let (until, reason) = text.split_once(": ").unwrap_or((text.trim_end_matches(':'), ""));
    Some(Exclusion { until: time(until)?, reason: cut(reason.trim()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: WireTime = WireTime::from_micros(1_798_761_599_000_000);

    fn metadata(name: &str, text: &str) -> ObjectMeta {
        let annotations = [(name.to_owned(), text.to_owned())].into();
        ObjectMeta { annotations: Some(annotations), ..ObjectMeta::default() }
    }

    #[test]
    fn a_written_act_parses_to_the_same_act() {
        let pin = Pin { candidate: "web-1".to_owned(), until: END };
        assert_eq!(pin_text(&pin), "web-1 until 2026-12-31T23:59:59Z");
        assert_eq!(lease_acts(&metadata(names::PIN, &pin_text(&pin))).pin, Some(Annotation::Valid(pin)));
        for reason in ["", "drain: node-3", "Works"] {
            let exclusion = Exclusion { until: END, reason: reason.to_owned() };
            let read = candidate_acts(&metadata(names::EXCLUDE, &exclusion_text(&exclusion))).exclude;
            assert_eq!(read, Some(Annotation::Valid(exclusion)));
        }
        let until = lease_acts(&metadata(names::HOLD_UNTIL, "2027-01-01T00:59:59+01:00")).hold_until;
        assert_eq!(until, Some(Annotation::Valid(END)));
        assert_eq!(lease_acts(&metadata(names::TRANSFER, "any")).transfer, Some(Transfer::Any));
        for text in ["", "container=app,pod-prefix=p"] {
            let options = AssistOptions::read(text).unwrap();
            assert_eq!(options.to_string(), text);
            assert_eq!(lease_acts(&metadata(names::ASSIST, text)).assist, Some(Annotation::Valid(options)));
        }
    }

    #[test]
    fn spaces_around_the_parts_of_an_act_do_not_count() {
        let pin = Pin { candidate: "web-1".to_owned(), until: END };
        let read = lease_acts(&metadata(names::PIN, " web-1  until  2026-12-31T23:59:59Z ")).pin;
        assert_eq!(read, Some(Annotation::Valid(pin)));
        let exclusion = Exclusion { until: END, reason: "drain".to_owned() };
        let read = candidate_acts(&metadata(names::EXCLUDE, " 2026-12-31T23:59:59Z:  drain ")).exclude;
        assert_eq!(read, Some(Annotation::Valid(exclusion)));
        let read = candidate_acts(&metadata(names::EXCLUDE, "2026-12-31T23:59:59Z:")).exclude;
        assert_eq!(read, Some(Annotation::Valid(Exclusion { until: END, reason: String::new() })));
        let until = lease_acts(&metadata(names::HOLD_UNTIL, " 2026-12-31T23:59:59Z ")).hold_until;
        assert_eq!(until, Some(Annotation::Valid(END)));
    }

    #[test]
    fn an_exclusion_is_conditional_on_the_version_and_removed_by_null() {
        let exclusion = Exclusion { until: END, reason: "works".to_owned() };
        let annotations = |exclude: Value, asked_by: Value| {
            json!({ "metadata": {
                "resourceVersion": "7",
                "annotations": { "hustings.io/exclude": exclude, "hustings.io/asked-by": asked_by },
            }})
        };
        let written = annotations(json!("2026-12-31T23:59:59Z: works"), json!("jane"));
        assert_eq!(exclusion_patch(7, Some(&exclusion), Some("jane")), written);
        assert_eq!(exclusion_patch(7, None, Some("joe")), annotations(Value::Null, json!("joe")));
        assert_eq!(exclusion_patch(7, None, None), annotations(Value::Null, Value::Null));
    }

    #[test]
    fn a_text_that_does_not_parse_is_kept_with_the_reason() {
        let malformed = |name, text: &str, why: &str| Malformed::new(name, text.to_owned(), why.to_owned());
        let why = r#"use the form "NAME until 2026-12-31T23:59:59Z""#;
        for text in ["web-1", "web-1 until", "web-1 until noon", "WEB until 2026-12-31T23:59:59Z", " until 2026-12-31"]
        {
            let pin = lease_acts(&metadata(names::PIN, text)).pin;
            assert_eq!(pin, Some(Annotation::Malformed(malformed(names::PIN, text, why))));
        }
        let why = r#"use the form "2026-12-31T23:59:59Z: REASON""#;
        for text in ["soon", "works: 2026-12-31T23:59:59Z", "2026-12-31"] {
            let exclude = candidate_acts(&metadata(names::EXCLUDE, text)).exclude;
            assert_eq!(exclude, Some(Annotation::Malformed(malformed(names::EXCLUDE, text, why))));
        }
        let reserved = r#""pod-template-hash" belongs to Kubernetes or to Hustings: use another key, such as "hustings.io/leader""#;
        for (text, why) in [("role", r#""role" is not of the form KEY=VALUE"#), (" pod-template-hash=a", reserved)] {
            let label = lease_acts(&metadata(names::LEADER_LABEL, text)).leader_label;
            assert_eq!(label, Some(Box::new(Annotation::Malformed(malformed(names::LEADER_LABEL, text, why)))));
        }
        let text = format!("container=a{}bad", " ".repeat(1_100));
        let assist = lease_acts(&metadata(names::ASSIST, &text)).assist;
        let why = r#""bad" is not an option: use container, pod-namespace or pod-prefix"#;
        let kept = malformed(names::ASSIST, &text[..1_024], why);
        assert_eq!(assist, Some(Annotation::Malformed(kept)), "a long text is cut, and the reason is of all of it");
        let until = lease_acts(&metadata(names::HOLD_UNTIL, "noon")).hold_until;
        let kept = malformed(names::HOLD_UNTIL, "noon", r#"use the form "2026-12-31T23:59:59Z""#);
        assert_eq!(until, Some(Annotation::Malformed(kept)));
    }
}
