//! Hints for names that do not exist: the nearest names that do.

/// The most names that a hint proposes.
const PROPOSED: usize = 3;

/// The least similarity of a name that a hint proposes, from 0 to 1.
const SIMILAR: f64 = 0.4;

/// A hint that proposes the names nearest to `name`. If none is similar, it lists some of the names. `kind` is the
/// plural of their kind.
pub(crate) fn hint<'a>(name: &str, kind: &str, existing: impl IntoIterator<Item = &'a str>) -> String {
    let existing = ranked(name, existing);
    match (proposal_of(&existing), existing.len()) {
        (Some(proposal), _) => proposal,
        (None, 0) => format!("there are no {kind} here: choose another --namespace"),
        (None, count) => {
            format!("{kind} here are {}{}", quoted(&existing), if count > PROPOSED { ", ..." } else { "" })
        }
    }
}

/// A hint that proposes the names nearest to `name`; `None` if no name is similar.
pub(crate) fn proposal<'a>(name: &str, existing: impl IntoIterator<Item = &'a str>) -> Option<String> {
    proposal_of(&ranked(name, existing))
}

/// The names with their similarity, the most similar first.
fn ranked<'a>(name: &str, existing: impl IntoIterator<Item = &'a str>) -> Vec<(f64, &'a str)> {
    let mut existing: Vec<_> =
        existing.into_iter().map(|other| (strsim::normalized_damerau_levenshtein(name, other), other)).collect();
    existing.sort_by(|(one, a), (other, b)| other.total_cmp(one).then_with(|| a.cmp(b)));
    existing.dedup();
    existing
}

fn proposal_of(ranked: &[(f64, &str)]) -> Option<String> {
    let similar = ranked.partition_point(|(similarity, _)| *similarity >= SIMILAR);
    (similar > 0).then(|| format!("did you mean {}?", quoted(&ranked[..similar])))
}

fn quoted(names: &[(f64, &str)]) -> String {
    let names: Vec<_> = names.iter().take(PROPOSED).map(|(_, name)| format!("{name:?}")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_proposed() {
        let names = ["web-0", "web-1", "database", "scheduler"];
        assert_eq!(hint("wbe-1", "candidates", names), r#"did you mean "web-1", "web-0"?"#);
        assert_eq!(hint("x", "candidates", names), r#"candidates here are "database", "scheduler", "web-0", ..."#);
        let twice = ["web", "web"];
        assert_eq!(hint("wbe", "Leases", twice), r#"did you mean "web"?"#, "Leases of two namespaces");
        assert_eq!(hint("x", "Leases", []), "there are no Leases here: choose another --namespace");
        assert_eq!(proposal("databse", names).as_deref(), Some(r#"did you mean "database"?"#));
        assert_eq!(proposal("x", names), None);
    }
}
