//! One mutant on trial: whether the simulation finds it, in how many worlds, and whether the models find it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::mutant::Mutant;
use crate::tree::Tree;

/// How long one world or one model may take. This bound finds a mutant that never ends.
const LONGEST: Duration = Duration::from_mins(2);

/// The profile in which worlds and models are built: see the workspace's manifest.
const PROFILE: &str = "mutants";

/// The pause between two checks whether a process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The result of one mutant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The simulation, by mode.
    pub worlds: BTreeMap<String, Worlds>,
    /// Whether each model found it.
    pub models: BTreeMap<String, bool>,
}

/// The result of the worlds of one mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worlds {
    /// How many there were.
    pub tried: u64,
    /// How many of them found the bug, by any invariant.
    pub found: u64,
    /// How many by each invariant.
    pub by: BTreeMap<String, u64>,
}

impl Verdict {
    /// Whether the bug was found: by each of its models, and in some world.
    pub fn is_found(&self) -> bool {
        let in_worlds = self.worlds.is_empty() || self.worlds.values().any(|worlds| worlds.found > 0);
        in_worlds && self.models.values().all(|found| *found)
    }

    /// Whether no model and no world found anything.
    pub fn is_clean(&self) -> bool {
        self.models.values().all(|found| !found) && self.worlds.values().all(|worlds| worlds.found == 0)
    }
}

/// Tries one mutant on the worlds of these seeds, and on its models.
pub fn try_out(mutant: &Mutant, tree: &Tree, seeds: &Range<u64>) -> Result<Verdict> {
    tree.restore()?;
    if let Some(patch) = &mutant.patch {
        tree.apply(patch)?;
    }
    let mut verdict = Verdict::default();
    if !mutant.modes.is_empty() {
        build(tree, "hustings-world", "simulate")?;
    }
    for mode in &mutant.modes {
        verdict.worlds.insert(mode.clone(), simulate(mutant, mode, tree, seeds)?);
    }
    if !mutant.models.is_empty() {
        build(tree, "hustings-models", "explore")?;
    }
    for model in &mutant.models {
        let output = tree.output().join(format!("{}-model-{model}.txt", mutant.name));
        let ended = run(example(tree, "explore").arg(model), &output, LONGEST)?;
        verdict.models.insert(model.clone(), !ended.is_some_and(|status| status.success()));
    }
    Ok(verdict)
}

fn simulate(mutant: &Mutant, mode: &str, tree: &Tree, seeds: &Range<u64>) -> Result<Worlds> {
    let output = tree.output().join(format!("{}-{mode}.txt", mutant.name));
    let tried = seeds.end.saturating_sub(seeds.start);
    let mut command = example(tree, "simulate");
    command.args(["--mode", mode, "--seeds", &format!("{}..{}", seeds.start, seeds.end), "--shrink", "false"]);
    let ended = run(&mut command, &output, LONGEST.saturating_mul(u32::try_from(tried).unwrap_or(u32::MAX)))?;
    let lines = fs::read_to_string(&output)?;
    let mut worlds = Worlds { tried, ..count(&lines) };
    match ended.map(|status| status.code()) {
        None => note(&mut worlds, "does not end"),
        Some(Some(0 | 1)) => {}
        Some(_) => note(&mut worlds, "panics"),
    }
    Ok(worlds)
}

fn note(worlds: &mut Worlds, what: &str) {
    worlds.found = worlds.found.saturating_add(1);
    worlds.by.insert(what.to_owned(), 1);
}

/// Counts the worlds in lines such as `seed 3, Direct: S1: a and b lead at the same instant`.
fn count(lines: &str) -> Worlds {
    let mut seeds = BTreeSet::new();
    let mut by: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for line in lines.lines() {
        let mut parts = line.splitn(3, ": ");
        let (Some(world), Some(invariant), Some(_)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let is_invariant = invariant.len() == 2 && invariant.starts_with(['S', 'L', 'W']);
        if world.starts_with("seed ") && is_invariant {
            seeds.insert(world);
            by.entry(invariant.to_owned()).or_default().insert(world);
        }
    }
    let by = by.into_iter().map(|(invariant, worlds)| (invariant, worlds.len() as u64)).collect();
    Worlds { tried: 0, found: seeds.len() as u64, by }
}

fn build(tree: &Tree, package: &str, example: &str) -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    cargo.current_dir(tree.root()).args(["build", "--quiet", "--profile", PROFILE, "--target-dir"]).arg(tree.output());
    let status = cargo.args(["-p", package, "--example", example]).status().context("cannot run cargo")?;
    ensure!(status.success(), "it does not build");
    Ok(())
}

/// An example that [`build`] has built.
fn example(tree: &Tree, name: &str) -> Command {
    Command::new(tree.output().join(PROFILE).join("examples").join(name))
}

/// Runs it with its output in a file; `None` if it took too long and was killed.
fn run(command: &mut Command, output: &Path, longest: Duration) -> Result<Option<ExitStatus>> {
    let file = File::create(output).with_context(|| format!("cannot write {}", output.display()))?;
    let errors = file.try_clone()?;
    let mut child = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn()?;
    let until = Instant::now() + longest;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_to_find_a_bug_and_of_the_worlds_one() {
        let worlds = |found| [("direct".to_owned(), Worlds { tried: 4, found, ..Worlds::default() })].into();
        let models = |found: &[bool]| found.iter().map(|found| (found.to_string(), *found)).collect();
        let found = |worlds, models| Verdict { worlds, models }.is_found();
        assert!(found(worlds(1), models(&[true])) && found(BTreeMap::new(), models(&[true])));
        assert!(!found(worlds(0), models(&[true])) && !found(worlds(4), models(&[true, false])));
    }

    #[test]
    fn a_world_counts_once_for_each_invariant_that_it_breaks() {
        let lines = "0 s: S1: no\nseed 3, Direct: S1: a and b\nseed 3, Direct: S1: again\n\
                    seed 3, Direct: L1: nobody\nseed 4, Alone: S1: a and b: c\nviolations         2 []\n";
        let by = [("L1".to_owned(), 1), ("S1".to_owned(), 2)].into();
        assert_eq!(count(lines), Worlds { tried: 0, found: 2, by });
    }
}
