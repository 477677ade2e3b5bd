//! The commands that all transcripts share:
//!
//! | command | meaning |
//! |---|---|
//! | `candidate NAME native binary=1.32 ..` | client-go's coordinated elector starts, with a native candidate; or its candidate changes: see the election's `candidate`. `renewed=1` and `renewed=9999` give its `renewTime` that year, `unrenewed` gives it none |
//! | `client-go NAME seconds=5 clock=60s` | a plain elector of client-go starts, and replaces a process of this name; a candidate of this name stays |
//! | `gate`, `gate off` | the server keeps the native fields of Leases; it drops those that are not set yet |
//! | `kill NAME`, `delete NAME`, `delete-lease` | a process dies; a candidate is deleted; the Lease is deleted |

use datadriven::TestCase;
use hustings_core::model::{Annotation, CandidateKey, CandidateKind, CandidateRecord, Exclusion, WireTime};
use hustings_lab::Lab;
use hustings_lab::client_go::Stands;

use crate::acts::{end, not_a_time};
use crate::arguments::{flag, name, number, signed_micros, strategy, text};

/// Flags of a candidate and its process.
pub(crate) struct Flags(Vec<&'static str>);

impl Flags {
    pub(crate) fn take(case: &mut TestCase) -> Self {
        let all = [
            "native",
            "dead",
            "unowned",
            "lazy",
            "diligent",
            "stubborn",
            "refused",
            "new",
            "elsewhere",
            "unrenewed",
            "static",
            "reowned",
        ];
        Self(all.into_iter().filter(|name| flag(case, name)).collect())
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.0.contains(&flag)
    }
}

/// Carries out a command that all transcripts share. Returns false for another one.
pub(crate) fn carry_out(lab: &mut Lab, case: &mut TestCase) -> bool {
    match case.directive.as_str() {
        "candidate" if case.args.contains_key("native") => {
            let flags = Flags::take(case);
            put_native(lab, case, &flags);
        }
        "client-go" => {
            let flags = Flags::take(case);
            let name = name(case);
            start(lab, case, &name, &flags, Stands::Plain);
        }
        "gate" => {
            let is_off = flag(case, "off");
            lab.server.store.keep_native_fields(!is_off);
        }
        "kill" => {
            let name = name(case);
            let who = lab.find(&name).expect("a process");
            lab.process(who).crashed = true;
        }
        "delete" => {
            let candidate = lab.candidate_of(&name(case));
            lab.delete_candidate(candidate);
        }
        "delete-lease" => lab.delete_lease(),
        _ => return false,
    }
    true
}

/// Starts a process of client-go. Returns its number.
fn start(lab: &mut Lab, case: &mut TestCase, name: &str, flags: &Flags, stands: Stands) -> usize {
    let (seconds, clock) = (number(case, "seconds"), signed_micros(case, "clock"));
    let index = lab.start_native(name, stands, seconds.unwrap_or(15), clock.unwrap_or_default());
    let native = &mut lab.natives[index];
    (native.process.crashed, native.takes_up) = (flags.has("dead"), !flags.has("lazy"));
    index
}

/// Creates or changes a native candidate and its process. It has neither a priority nor an owner.
fn put_native(lab: &mut Lab, case: &mut TestCase, flags: &Flags) {
    let name = name(case);
    let key = CandidateKey::native(&name);
    let mut record = new_candidate(lab, &key);
    if let Some(known) = lab.server.store.candidate(&key).filter(|_| !flags.has("new")) {
        record = known.clone();
    }
    let running = lab.natives.iter().position(|native| native.process.name == name);
    let running = running.filter(|index| lab.natives[*index].elector.stands() == Stands::Coordinated);
    let index = match running.filter(|_| !flags.has("new")) {
        None => start(lab, case, &name, flags, Stands::Coordinated),
        Some(index) => {
            if let Some(clock) = signed_micros(case, "clock") {
                lab.natives[index].process.set_clock(0, 0, clock);
            }
            index
        }
    };
    change(lab, case, flags, &mut record);
    record.renew_time = match text(case, "renewed").as_deref() {
        Some("1") => Some(WireTime::from_micros(i64::MIN)),
        Some("9999") => Some(WireTime::MAX),
        _ => record.renew_time,
    };
    lab.put_native_candidate(index, record);
    if flags.has("unrenewed") {
        lab.edit_candidate(key, |record| record.renew_time = None);
    }
}

/// A candidate that does not exist yet.
pub(crate) fn new_candidate(lab: &Lab, key: &CandidateKey) -> CandidateRecord {
    CandidateRecord {
        kind: key.kind,
        name: key.name.to_string(),
        lease_name: lab.server.lease_name.clone(),
        owned: key.kind == CandidateKind::Hustings,
        binary_version: "1.32".to_owned(),
        emulation_version: Some("1.32".to_owned()),
        ..CandidateRecord::default()
    }
}

/// Changes what a candidate declares, and what an administrator has written to it.
pub(crate) fn change(lab: &Lab, case: &mut TestCase, flags: &Flags, record: &mut CandidateRecord) {
    if let Some(binary) = text(case, "binary") {
        record.binary_version.clone_from(&binary);
        record.emulation_version = Some(binary);
    }
    if let Some(emulation) = text(case, "emulation") {
        record.emulation_version = Some(emulation).filter(|emulation| emulation != "none");
    }
    record.strategy = strategy(case).or_else(|| record.strategy.take());
    let (reason, asked_by) = (text(case, "because").unwrap_or_default(), text(case, "asked-by"));
    if let Some(exclude) = text(case, "exclude") {
        record.acts.exclude = (exclude != "none").then(|| match end(lab, &exclude) {
            Some(until) => Annotation::Valid(Exclusion { until, reason }),
            None => not_a_time("hustings.io/exclude", exclude),
        });
        record.acts.asked_by = asked_by;
    }
    if flags.has("elsewhere") {
        "other".clone_into(&mut record.lease_name);
    }
    if let (Some(created), true) = (signed_micros(case, "created"), record.uid.is_empty()) {
        record.uid = format!("uid-of-{}", record.name);
        record.creation_time = WireTime::from_micros(lab.wall().as_micros() + created);
    }
}
