//! `cargo run -p hustings-mutants -- [NAME…] [--seeds A..B]`: checks that the simulation and the models find the bugs
//! of this folder.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use hustings_mutants::mutant::Mutant;
use hustings_mutants::table::{HEAD, Row};
use hustings_mutants::tree::{Tree, workspace};
use hustings_mutants::trial::try_out;

/// Plants bugs into a copy of the tree, one at a time, and reports whether the simulation and the models find them
///
/// Exits with 1 if a bug is not found, or if the tree without a bug fails.
#[derive(Parser)]
struct Arguments {
    /// The bugs; all by default
    names: Vec<String>,
    /// The seeds of the simulated worlds
    #[arg(long, value_name = "A..B", default_value = "0..10", value_parser = range)]
    seeds: Range<u64>,
}

fn main() -> Result<ExitCode> {
    let Arguments { names, seeds } = Arguments::parse();
    let chosen = choose(&names)?;
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

/// The mutants of these names, or all, after the unchanged tree: if that fails, finding a mutant proves nothing.
fn choose(names: &[String]) -> Result<Vec<Mutant>> {
    let mutants = Mutant::all()?;
    let mut known = vec![Mutant::none(&mutants)];
    known.extend(mutants);
    let strange: Vec<_> = names.iter().filter(|name| known.iter().all(|mutant| mutant.name != **name)).collect();
    ensure!(strange.is_empty(), "there are no mutants {strange:?}");
    known.retain(|mutant| names.is_empty() || names.contains(&mutant.name));
    Ok(known)
}

fn range(text: &str) -> Result<Range<u64>> {
    let (first, end) = text.split_once("..").context("it is a range such as 0..100")?;
    Ok(first.parse()?..end.parse()?)
}
