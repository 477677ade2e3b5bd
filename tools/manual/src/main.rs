//! Writes a manual page for each command: `cargo run --bin hustings-manual -- DIRECTORY`. A release contains these pages.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use hustings::base::program::Program;

fn main() -> anyhow::Result<()> {
    let directory = PathBuf::from(std::env::args_os().nth(1).context("name the directory for the pages")?);
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let mut command = hustings::cli::command(Program::Hustings).disable_help_subcommand(true);
    command.build();
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    for command in std::iter::once(&command).chain(shown) {
        let page = clap_mangen::Man::new(command.clone()).source("Hustings").manual("Hustings");
        let file = directory.join(page.get_filename());
        let write = || page.render(&mut fs::File::create(&file)?);
        write().with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
