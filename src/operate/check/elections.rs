//! Checks for Leases without a holder, and for candidates that cannot lead.

use super::report::Finding;
use crate::base::cluster::Cluster;
use crate::operate::assisted::is_own_lease;
use crate::operate::status::{self, LeaseRow, LeaseState, StatusOutput};

/// The most Leases or candidates that a finding names.
const MAX_NAMED: usize = 5;

/// Checks the elections of this namespace or of all. `own_leases` are known to be those of controllers.
pub(super) async fn check(cluster: &Cluster, namespace: Option<&str>, own_leases: &[(String, String)]) -> Vec<Finding> {
    let config =
        status::Config { lease: None, all_namespaces: namespace.is_none(), watch: false, output: StatusOutput::Json };
    match status::read(cluster, &config).await {
        Ok(mut rows) => {
            // Another check is about these.
            rows.retain(|row| !is_own_lease((&row.namespace, &row.lease), row.token, own_leases));
            let mut findings = leases(&rows);
            findings.push(candidates(&rows));
            findings
        }
        Err(error) => vec![Finding::unknown("leases", format!("{error:#}"))],
    }
}

fn leases(rows: &[LeaseRow]) -> Vec<Finding> {
    let of =
        |is_wanted: fn(&LeaseRow) -> bool| -> Vec<&LeaseRow> { rows.iter().filter(|row| is_wanted(row)).collect() };
    let named = |rows: &[&LeaseRow]| {
        let names = rows.iter().map(|row| format!("{}/{} ({})", row.namespace, row.lease, row.state.as_str()));
        some_of(&names.collect::<Vec<_>>())
    };
    let (unheld, left) = (of(|row| is_unheld(row) && !row.candidates.is_empty()), of(is_left));
    let on_hold = of(|row| row.state == LeaseState::Hold);
    let hint = "`hustings status LEASE --namespace NAMESPACE` shows why no candidate leads";
    let mut findings = Vec::new();
    if !unheld.is_empty() {
        findings.push(Finding::fail("leases", format!("without a holder: {}", named(&unheld)), hint));
    }
    if let Some(LeaseRow { namespace, lease, .. }) = left.first() {
        let hint = format!(
            "if no process stands for it any more, such as a job that has finished, remove it: \
             `kubectl delete lease {lease} --namespace {namespace}`"
        );
        let message = format!("with neither a holder nor a candidate: {}", named(&left));
        findings.push(Finding::warn("leases", message, hint));
    }
    if !on_hold.is_empty() {
        findings.push(Finding::warn("leases", format!("without a holder on purpose: {}", named(&on_hold)), hint));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("leases", format!("{} enrolled, each with a holder", rows.len())));
    }
    findings
}

fn is_unheld(row: &LeaseRow) -> bool {
    !row.state.is_held() && row.state != LeaseState::Hold
}

/// Whether nobody stands for this Lease. Its component has finished or was removed, and the Lease has remained.
fn is_left(row: &LeaseRow) -> bool {
    is_unheld(row) && row.candidates.is_empty()
}

fn candidates(rows: &[LeaseRow]) -> Finding {
    let of = |state: &str| -> Vec<String> {
        let all = rows.iter().flat_map(|row| row.candidates.iter().map(move |candidate| (row, candidate)));
        let wanted = all.filter(|(_, candidate)| candidate.state == Some(state));
        wanted.map(|(row, candidate)| format!("{}/{} ({})", row.namespace, candidate.name, candidate.reason)).collect()
    };
    let (invalid, unresponsive) = (of("Invalid"), of("Unresponsive"));
    if !invalid.is_empty() {
        let hint = "correct the flags of the component that creates them; docs/protocol.md lists the rules";
        Finding::fail("candidates", format!("invalid: {}", some_of(&invalid)), hint)
    } else if !unresponsive.is_empty() {
        let hint = "if their processes run, look at their logs; if not, delete the candidates";
        Finding::warn("candidates", format!("unresponsive: {}", some_of(&unresponsive)), hint)
    } else {
        let count: usize = rows.iter().map(|row| row.candidates.len()).sum();
        Finding::ok("candidates", format!("{count} stand for election, none is invalid"))
    }
}

/// Names the first few, and counts the rest.
fn some_of(names: &[String]) -> String {
    let first = names[..names.len().min(MAX_NAMED)].join(", ");
    match names.len().checked_sub(MAX_NAMED) {
        None | Some(0) => first,
        Some(more) => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::check::report::Verdict;
    use crate::operate::status::CandidateRow;

    fn row(name: &str, state: LeaseState, candidates: &[&'static str]) -> LeaseRow {
        let mut row = LeaseRow { namespace: "n".to_owned(), lease: name.to_owned(), state, ..LeaseRow::default() };
        row.candidates = candidates
            .iter()
            .map(|state| CandidateRow {
                rank: None,
                name: format!("{name}-0"),
                kind: hustings_core::model::CandidateKind::Hustings,
                binary_version: String::new(),
                emulation_version: None,
                priority: None,
                state: Some(state),
                exclude: None,
                reason: "Why.".to_owned(),
            })
            .collect();
        row
    }

    #[test]
    fn a_lease_without_a_holder_is_a_failure_unless_that_is_on_purpose_or_nobody_stands_for_it() {
        use LeaseState::{Expired, Granted, Held, Hold, Missing, NoCandidate, Unheld};
        let stands = &["Standby"][..];
        for (leases, verdict, message) in [
            (&[][..], Verdict::Ok, "0 enrolled, each with a holder"),
            (&[(Held, stands), (Granted, stands)], Verdict::Ok, "2 enrolled, each with a holder"),
            (&[(Held, stands), (Hold, &[])], Verdict::Warn, "without a holder on purpose: n/l1 (hold)"),
            (
                &[(Hold, stands), (Unheld, stands)],
                Verdict::Fail,
                "without a holder: n/l1 (unheld); without a holder on purpose: n/l0 (hold)",
            ),
            (&[(Expired, stands)], Verdict::Fail, "without a holder: n/l0 (expired)"),
            (&[(Missing, stands)], Verdict::Fail, "without a holder: n/l0 (missing)"),
            (&[(NoCandidate, stands)], Verdict::Fail, "without a holder: n/l0 (no-candidate)"),
            (&[(Unheld, &[])], Verdict::Warn, "with neither a holder nor a candidate: n/l0 (unheld)"),
            (
                &[(Hold, &[]), (Expired, &[])],
                Verdict::Warn,
                "with neither a holder nor a candidate: n/l1 (expired); without a holder on purpose: n/l0 (hold)",
            ),
            (
                &[(Unheld, &[]), (Expired, stands)],
                Verdict::Fail,
                "without a holder: n/l1 (expired); with neither a holder nor a candidate: n/l0 (unheld)",
            ),
        ] {
            let rows = leases.iter().enumerate().map(|(at, (state, stand))| row(&format!("l{at}"), *state, stand));
            let findings = super::leases(&rows.collect::<Vec<_>>());
            let messages: Vec<_> = findings.iter().map(|finding| finding.message.as_str()).collect();
            assert_eq!((findings[0].verdict, &*messages.join("; ")), (verdict, message));
        }
    }

    #[test]
    fn an_invalid_candidate_is_a_failure_and_an_unresponsive_one_a_warning() {
        for (states, verdict, message, hint) in [
            (&["Holder", "Standby"][..], Verdict::Ok, "2 stand for election, none is invalid", ""),
            (&["Holder", "Unresponsive"], Verdict::Warn, "unresponsive: n/l-0 (Why.)", "look at their logs"),
            (&["Unresponsive", "Invalid"], Verdict::Fail, "invalid: n/l-0 (Why.)", "correct the flags"),
        ] {
            let finding = candidates(&[row("l", LeaseState::Held, states)]);
            assert_eq!((finding.check, finding.verdict, &*finding.message), ("candidates", verdict, message));
            assert!(finding.hint.unwrap_or_default().contains(hint), "{message}");
        }
    }

    #[test]
    fn finding_names_a_few_and_counts_the_rest() {
        let names: Vec<_> = (0..7).map(|number| number.to_string()).collect();
        assert_eq!(some_of(&names[..1]), "0");
        assert_eq!(some_of(&names[..5]), "0, 1, 2, 3, 4");
        assert_eq!(some_of(&names), "0, 1, 2, 3, 4 and 2 more");
    }
}
