//! The results of all mutants, as a table.

use std::fmt::{self, Display};

use crate::mutant::Mutant;
use crate::trial::{Verdict, Worlds};

/// One line of the table.
pub struct Row<'a>(pub &'a Mutant, pub &'a Verdict);

/// The head of the table.
pub const HEAD: &str = "| mutant | breaks | found by models | found in worlds |\n|---|---|---|---|";

impl Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Mutant { name, breaks, .. }, verdict) = self;
        let worlds = verdict.worlds.iter().map(|(mode, worlds)| format!("{mode} {worlds}")).collect();
        let found = |found| if found { "" } else { " **not**" };
        let models = verdict.models.iter().map(|(model, is_found)| format!("{model}{}", found(*is_found))).collect();
        let [models, worlds] = [models, worlds].map(|found: Vec<String>| match &found[..] {
            [] => "-".to_owned(),
            found => found.join("; "),
        });
        write!(f, "| {name} | {breaks} | {models} | {worlds} |")
    }
}

impl Display for Worlds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tried, found, by } = self;
        write!(f, "{found} of {tried}")?;
        let by: Vec<String> = by.iter().map(|(invariant, count)| format!("{invariant} {count}")).collect();
        if by.is_empty() { Ok(()) } else { write!(f, " ({})", by.join(", ")) }
    }
}
