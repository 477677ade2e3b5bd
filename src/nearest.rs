//! Names that do not exist, and the nearest that do.

/// How many names a hint proposes.
const PROPOSED: usize = 3;

/// How different a name may be to be proposed: the share of its characters.
const SIMILAR: f64 = 0.4;

/// A hint that proposes the names nearest to `name`; without one, it lists the first of them. `kind` is what they are.
pub(crate) fn hint<'a>(name: &str, kind: &str, existing: impl IntoIterator<Item = &'a str>) -> String {
    let mut existing: Vec<_> =
        existing.into_iter().map(|other| (strsim::normalized_damerau_levenshtein(name, other), other)).collect();
    existing.sort_by(|(one, a), (other, b)| other.total_cmp(one).then_with(|| a.cmp(b)));
    existing.dedup();
    let quoted = |names: &[(f64, &str)]| {
        let names: Vec<_> = names.iter().take(PROPOSED).map(|(_, name)| format!("{name:?}")).collect();
        names.join(", ")
    };
    let nearest: Vec<_> = existing.iter().copied().filter(|(similarity, _)| *similarity >= SIMILAR).collect();
    match (nearest.is_empty(), existing.is_empty()) {
        (false, _) => format!("did you mean {}?", quoted(&nearest)),
        (true, false) => {
            format!("{kind} here are {}{}", quoted(&existing), if existing.len() > PROPOSED { ", ..." } else { "" })
        }
        (true, true) => format!("there are no {kind} here: choose another --namespace"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_proposed() {
        let names = ["web-0", "web-1", "database", "scheduler"];
        assert_eq!(hint("wbe-1", "candidates", names), r#"did you mean "web-1", "web-0"?"#);
        assert_eq!(hint("x", "candidates", names), r#"candidates here are "database", "scheduler", "web-0", ..."#);
        assert_eq!(hint("x", "Leases", []), "there are no Leases here: choose another --namespace");
    }
}
