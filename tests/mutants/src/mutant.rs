//! A mutant: a unified diff with a header that describes the bug and names the tests that must find it.
//!
//! ```text
//! Validity is counted from the answer of a write and not from its sending.
//!
//! Had by: client-go
//! Breaks: S1
//! Modes: direct coordinated
//! Test: -p hustings-client --lib -- driver
//! ```
//!
//! The first paragraph describes the bug. `Modes` names the modes in which the simulation must find it. Each `Test` has the
//! arguments of a `cargo test` that must fail. A header has at least one of the two.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// One bug.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutant {
    /// The patch file; `None` for the unchanged tree.
    pub patch: Option<PathBuf>,
    /// The name of the patch file, without its ending.
    pub name: String,
    /// The description of the bug.
    pub about: String,
    /// The software that had it.
    pub had_by: String,
    /// The invariant that it breaks.
    pub breaks: String,
    /// The modes of the simulation that must find it.
    pub modes: Vec<String>,
    /// The arguments of each `cargo test` that must fail.
    pub tests: Vec<String>,
}

impl Mutant {
    /// Every mutant, by name.
    pub fn all() -> Result<Vec<Self>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut patches = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "patch") {
                patches.push(path);
            }
        }
        patches.sort();
        patches.into_iter().map(Self::read).collect()
    }

    /// The unchanged tree, in which no test and no mode of `mutants` may find anything.
    pub fn none(mutants: &[Self]) -> Self {
        let mut modes: Vec<String> = mutants.iter().flat_map(|mutant| mutant.modes.clone()).collect();
        let mut tests: Vec<String> = mutants.iter().flat_map(|mutant| mutant.tests.clone()).collect();
        for found_by in [&mut modes, &mut tests] {
            found_by.sort();
            found_by.dedup();
        }
        Self { name: "none".to_owned(), about: "Nothing is wrong.".to_owned(), modes, tests, ..Self::default() }
    }

    fn read(path: PathBuf) -> Result<Self> {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mutant = Self { patch: Some(path), ..Self::parse(&name, &text) };
        let is_whole = !mutant.about.is_empty() && !mutant.had_by.is_empty() && !mutant.breaks.is_empty();
        ensure!(is_whole, "{name}.patch does not say what the bug is, or not who had it, or not what it breaks");
        ensure!(!mutant.modes.is_empty() || !mutant.tests.is_empty(), "{name}.patch does not say by what it is found");
        Ok(mutant)
    }

    fn parse(name: &str, text: &str) -> Self {
        let header = || text.lines().take_while(|line| !line.starts_with("diff --git "));
        let fields = |key| header().filter_map(move |line| Some(line.strip_prefix(key)?.trim().to_owned()));
        let field = |key| fields(key).next().unwrap_or_default();
        Self {
            patch: None,
            name: name.to_owned(),
            about: header().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" "),
            had_by: field("Had by:"),
            breaks: field("Breaks:"),
            modes: field("Modes:").split_whitespace().map(str::to_owned).collect(),
            tests: fields("Test:").collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_ends_where_the_patch_begins() {
        let text =
            "It is wrong\nin this.\n\nHad by: me\nBreaks: S1\nModes: direct alone\n\ndiff --git a/x b/x\nTest: no\n";
        let mutant = Mutant::parse("m", text);
        assert_eq!((mutant.about.as_str(), mutant.breaks.as_str()), ("It is wrong in this.", "S1"));
        assert_eq!((mutant.modes, mutant.tests), (vec!["direct".to_owned(), "alone".to_owned()], vec![]));
    }
}
