//! The directives that only show something.

use hustings_core::elector::Range;
use hustings_core::model::{CandidateRecord, PastTerm, RunningTerm, WireTime};
use hustings_lab::{Lab, Replica, seconds, wall_at};

use super::words::describe;

/// The status of each candidate.
pub(super) fn statuses(lab: &Lab) -> Vec<String> {
    let described = |candidate: &CandidateRecord| {
        let status = &candidate.status;
        let state = status.state.map_or("none", |state| state.as_str());
        format!("{} {state}: {}", candidate.name, status.message)
    };
    lab.server.store.candidates().map(described).collect()
}

/// When a candidate was pinged and when it renewed.
pub(super) fn describe_candidate(lab: &Lab, name: &str) -> String {
    let Some(candidate) = lab.server.store.candidate(name) else { return "missing".to_owned() };
    let shown = |time: Option<WireTime>| {
        time.map_or("never".to_owned(), |time| format!("{} us", time.as_micros() - wall_at(0).as_micros()))
    };
    format!("{}: pinged {}, renewed {}", candidate.uid, shown(candidate.ping_time), shown(candidate.renew_time))
}

/// The wall-clock time that the last term of a replica owns.
pub(super) fn describe_range(replica: &Replica) -> String {
    let shown = |time: WireTime| match time {
        WireTime::MAX => "whenever".to_owned(),
        time => seconds(time.as_micros() - wall_at(0).as_micros()),
    };
    let Some(Range { start, end, fails_open_until }) = replica.range else {
        return format!("{} owns nothing", replica.process.label);
    };
    let open = fails_open_until.map(|until| format!(", and until {} if nobody takes over", shown(until)));
    format!("{} owns {} to {}{}", replica.process.label, shown(start), shown(end), open.unwrap_or_default())
}

/// The Lease and who leads.
pub(super) fn show(lab: &Lab) -> String {
    let lease = lab.lease().map_or_else(|| "missing".to_owned(), describe);
    let leader = lab.replicas.iter().filter(|replica| replica.reads_leading(lab.now_micros)).find_map(|replica| {
        let leading = replica.leading?;
        Some(format!("{} leads until {}", replica.process.name, seconds(leading.valid_until.as_micros())))
    });
    let native = lab.natives.iter().find(|native| native.reads_leading(lab.now_micros));
    let leader = leader.or_else(|| Some(format!("{} leads by client-go", native?.process.name)));
    format!("{lease}; {}", leader.unwrap_or_else(|| "nobody leads".to_owned()))
}

/// The past terms that the Lease records.
pub(super) fn history(lab: &Lab) -> Vec<String> {
    let Some(lease) = lab.lease() else { return Vec::new() };
    let mut lines = Vec::new();
    let time = |time: WireTime| seconds(time.as_micros() - wall_at(0).as_micros());
    if let Some(RunningTerm { number, holder, since, request }) = lease.running_term() {
        let request = request.map(|why| format!(": asked to hand over ({why})")).unwrap_or_default();
        lines.push(format!("term {number} of {holder} from {}{request}", time(since)));
    }
    for PastTerm { number, holder, since, until, ending } in lease.history.terms() {
        lines.push(format!("term {number} of {holder} from {} to {}: {ending}", time(since), time(until)));
    }
    lines
}
