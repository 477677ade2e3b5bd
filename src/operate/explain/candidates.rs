//! Each candidate, and why it does or does not lead.

use hustings_core::model::{CandidateRecord, CandidateState, Condition, Version, WireTime};

use super::explanation::CandidateNote;
use super::situation::Situation;
use crate::operate::status::CandidateRow;

pub(super) fn notes(situation: &Situation<'_>) -> Vec<CandidateNote> {
    situation.row.candidates.iter().map(|row| note(situation, row)).collect()
}

fn note(situation: &Situation<'_>, row: &CandidateRow) -> CandidateNote {
    let mut sentences = vec![reason(situation, row)];
    sentences.extend(pre_release(situation, row).map(|note| format!("{note}.")));
    if let Some(record) = situation.candidate(row) {
        sentences.extend(details(record, situation.wall()));
    }
    CandidateNote {
        rank: row.rank,
        name: row.name.clone(),
        kind: row.kind,
        claims: claims(row),
        state: row.state,
        reason: sentences.join(" "),
    }
}

/// The controller's recorded reason; without one, the reason that the pure decision gives.
fn reason(situation: &Situation<'_>, row: &CandidateRow) -> String {
    if !row.reason.is_empty() {
        return row.reason.clone();
    }
    let by_rule = situation.verdict(row).map(|verdict| verdict.reason.to_string()).unwrap_or_default();
    if situation.scene.lease.is_none() || row.state.is_none() {
        return format!("No controller has written a status yet. By the rules: {by_rule}").trim_end().to_owned();
    }
    by_rule
}

/// Why the candidate ranks before another one, if a pre-release is the only reason.
fn pre_release(situation: &Situation<'_>, row: &CandidateRow) -> Option<String> {
    let versions = |row: &CandidateRow| {
        let emulated = row.emulation_version.as_ref().unwrap_or(&row.binary_version);
        [emulated, &row.binary_version].map(|version| version.parse::<Version>().ok())
    };
    let own = versions(row);
    let others = situation.row.candidates.iter().flat_map(|other| own.iter().zip(versions(other)));
    others.into_iter().find_map(|(own, other)| own.as_ref()?.note_on_pre_release(&other?))
}

fn details(record: &CandidateRecord, wall: WireTime) -> Vec<String> {
    let mut sentences = Vec::new();
    let status = &record.status;
    if let (Some(CandidateState::Damped), Some(until)) = (status.state, status.damped_until) {
        let times =
            if status.damping_count == 1 { "once".to_owned() } else { format!("{} times", status.damping_count) };
        sentences
            .push(format!("It lost the Lease or left a grant unused {times} recently, and ranks last until {until}."));
    }
    if let (Some(CandidateState::Unresponsive), Some(since)) = (status.state, status.unresponsive_since) {
        sentences.push(format!("The controller noticed that at {since}."));
    }
    if status.state == Some(CandidateState::Unproven) {
        sentences.push("Whether it lives is unknown: the controller pings it before it elects it.".to_owned());
    }
    let answered_early = status.responsive.reason == Condition::ANSWERED_BEFORE_PING;
    let is_pinged = record.ping_time.is_some_and(|ping| record.renew_time.is_none_or(|renewed| renewed < ping));
    if let (true, Some(ping), false) = (is_pinged, record.ping_time, status.state == Some(CandidateState::Unresponsive))
    {
        sentences.push(if answered_early {
            let answered = record.renew_time.map_or_else(String::new, |time| format!(" {time},"));
            format!(
                "It answered a ping with the time{answered} before the ping of {ping}. The answer counts. Correct the clock \
                 of its machine, or its program."
            )
        } else {
            format!("It has not answered the ping of {ping} yet.")
        });
    }
    if let Some(exclusion) = record.acts.exclusion(wall) {
        sentences.push(format!("The exclusion lasts until {}.", exclusion.until));
    }
    sentences
}

fn claims(row: &CandidateRow) -> String {
    let emulation = row.emulation_version.as_ref().filter(|emulation| **emulation != row.binary_version);
    let emulates = emulation.map_or_else(String::new, |version| format!(", emulates {version}"));
    let priority = row.priority.filter(|priority| *priority != 0);
    let priority = priority.map_or_else(String::new, |priority| format!(", priority {priority}"));
    format!("{}{emulates}{priority}", row.binary_version)
}
