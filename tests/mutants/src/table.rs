//! The results of all mutants, as a table for a record in `docs/verification/records`.

use std::fmt::{self, Display};

use crate::mutant::Mutant;
use crate::trial::{Verdict, Worlds};

/// One line of the table.
pub struct Row<'a>(pub &'a Mutant, pub &'a Verdict);

/// The head of the table.
pub const HEAD: &str = "| mutant | breaks | found by a test | found in worlds |\n|---|---|---|---|";

impl Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Mutant { patch, name, breaks, .. }, verdict) = self;
        let worlds: Vec<String> = verdict.worlds.iter().map(|(mode, worlds)| format!("{mode} {worlds}")).collect();
        let worlds = if worlds.is_empty() { "-".to_owned() } else { worlds.join("; ") };
        let found = verdict.tests.values().filter(|found| **found).count();
        let count = format!("{found} of {}", verdict.tests.len());
        let describe = |(test, found): (&String, &bool)| format!("{}`{test}`", if *found { "" } else { "**not** by " });
        let each: Vec<String> = verdict.tests.iter().map(describe).collect();
        let tests = match each.len() {
            0 => "-".to_owned(),
            _ if patch.is_none() => count,
            _ => each.join("; "),
        };
        write!(f, "| {name} | {breaks} | {tests} | {worlds} |")
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
