//! `cargo run -p hustings-mutants -- [NAME…] [--seeds A..B] [--modes LIST]`: whether the bugs of this folder are
//! found. No seeds (`--seeds 0..0`) leave the simulation out, and the tests alone are run; `--modes direct,coordinated` is
//! the simulation alone, in worlds of these modes.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use hustings_mutants::mutant::Mutant;
use hustings_mutants::table::{HEAD, Row};
use hustings_mutants::tree::{Tree, workspace};
use hustings_mutants::trial::try_out;

struct Arguments {
    names: Vec<String>,
    seeds: Range<u64>,
    /// In worlds of these modes, and by no test.
    modes: Option<Vec<String>>,
}

fn main() -> Result<ExitCode> {
    let Arguments { names, seeds, modes } = arguments()?;
    let mut chosen = choose(&names)?;
    if let Some(modes) = modes {
        for mutant in &mut chosen {
            mutant.modes.retain(|mode| modes.contains(mode));
            mutant.tests.clear();
        }
        chosen.retain(|mutant| !mutant.modes.is_empty());
    }
    let tree = Tree::of(workspace());
    std::fs::create_dir_all(tree.root())?;
    std::fs::create_dir_all(tree.output())?;
    let mut rows = vec![HEAD.to_owned()];
    let mut all_as_expected = true;
    for mutant in &chosen {
        let began = Instant::now();
        let row = match try_out(mutant, &tree, &seeds) {
            Ok(verdict) => {
                let is_planted = mutant.patch.is_some();
                all_as_expected &= if is_planted { verdict.is_found() } else { verdict.is_clean() };
                Row(mutant, &verdict).to_string()
            }
            Err(error) => {
                all_as_expected = false;
                format!("| {} | {} | {error:#} | |", mutant.name, mutant.breaks)
            }
        };
        eprintln!("{row} {} s", began.elapsed().as_secs());
        rows.push(row);
    }
    tree.restore()?;
    println!("{}", rows.join("\n"));
    Ok(if all_as_expected { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The mutants of these names, or all, and before all of them the tree as it is: where that is found wanting, a mutant
/// that is found proves nothing.
fn choose(names: &[String]) -> Result<Vec<Mutant>> {
    let mutants = Mutant::all()?;
    let mut known = vec![Mutant::none(&mutants)];
    known.extend(mutants);
    let strange: Vec<_> = names.iter().filter(|name| known.iter().all(|mutant| mutant.name != **name)).collect();
    ensure!(strange.is_empty(), "there are no mutants {strange:?}");
    known.retain(|mutant| names.is_empty() || names.contains(&mutant.name));
    Ok(known)
}

fn arguments() -> Result<Arguments> {
    let mut arguments = Arguments { names: Vec::new(), seeds: 0..10, modes: None };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        if argument == "--seeds" {
            let range = given.next().context("--seeds needs a value")?;
            let (first, end) = range.split_once("..").context("--seeds is a range such as 0..100")?;
            arguments.seeds = first.parse()?..end.parse()?;
        } else if argument == "--modes" {
            let modes = given.next().context("--modes needs a value")?;
            arguments.modes = Some(modes.split(',').map(str::to_owned).collect());
        } else if argument.starts_with('-') {
            bail!("{argument} is unknown: there are NAME…, --seeds A..B and --modes LIST");
        } else {
            arguments.names.push(argument);
        }
    }
    Ok(arguments)
}
