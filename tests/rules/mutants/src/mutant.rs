//! A mutant: a unified diff with a header that describes the bug and says what must find it.
//!
//! ```text
//! A candidate that was never pinged counts as live.
//!
//! Had by: upstream's coordinated leader election, which believes a recent renewTime
//! Breaks: S4
//! Modes: coordinated
//! Models: elected
//! ```
//!
//! The first paragraph describes the bug. `Modes` names the modes in which the simulation must find it, and `Models`
//! the models that must. A header has at least one of the two.

use std::collections::BTreeSet;
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
    /// The models that must find it.
    pub models: Vec<String>,
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

    /// The unchanged tree, in which no mode and no model of `mutants` may find anything.
    pub fn none(mutants: &[Self]) -> Self {
        let all = |finders: fn(&Self) -> &[String]| {
            let names: BTreeSet<String> = mutants.iter().flat_map(finders).cloned().collect();
            names.into_iter().collect()
        };
        Self {
            name: "none".to_owned(),
            about: "Nothing is wrong.".to_owned(),
            modes: all(|mutant| &mutant.modes),
            models: all(|mutant| &mutant.models),
            ..Self::default()
        }
    }

    fn read(path: PathBuf) -> Result<Self> {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mutant = Self { patch: Some(path), ..Self::parse(&name, &text) };
        let is_whole = !mutant.about.is_empty() && !mutant.had_by.is_empty() && !mutant.breaks.is_empty();
        ensure!(is_whole, "{name}.patch does not say what the bug is, or not who had it, or not what it breaks");
        ensure!(!mutant.modes.is_empty() || !mutant.models.is_empty(), "{name}.patch does not say by what it is found");
        Ok(mutant)
    }

    fn parse(name: &str, text: &str) -> Self {
        let header = || text.lines().take_while(|line| !line.starts_with("diff --git "));
        let field = |key| header().find_map(|line| Some(line.strip_prefix(key)?.trim())).unwrap_or_default();
        let list = |key| field(key).split_whitespace().map(str::to_owned).collect();
        Self {
            patch: None,
            name: name.to_owned(),
            about: header().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" "),
            had_by: field("Had by:").to_owned(),
            breaks: field("Breaks:").to_owned(),
            modes: list("Modes:"),
            models: list("Models:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_ends_where_the_patch_begins() {
        let text =
            "It is wrong\nin this.\n\nHad by: me\nBreaks: S1\nModes: direct alone\n\ndiff --git a/x b/x\nModels: no\n";
        let mutant = Mutant::parse("m", text);
        assert_eq!((mutant.about.as_str(), mutant.breaks.as_str()), ("It is wrong in this.", "S1"));
        assert_eq!((mutant.modes, mutant.models), (vec!["direct".to_owned(), "alone".to_owned()], vec![]));
    }
}
