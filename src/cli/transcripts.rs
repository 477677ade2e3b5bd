//! What each command makes of its flags, as data files: `tests/testdata/cli/*.txt`, rewritten by
//! `REWRITE=1 cargo test -p hustings --lib cli::transcripts`.
//!
//! A file has one directive, `hustings`. Each line of its input is more of the command line. The output is either the
//! mistakes in it or the configuration of the command: at its first command line in the file all of it, and then each
//! value that differs from the first one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use super::*;
use crate::base::hint::Hinted;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testdata/cli");

#[test]
fn configurations_match_their_transcripts_which_use_every_flag() {
    let mut used = BTreeSet::new();
    datadriven::walk(FILES, |file| {
        let mut first = BTreeMap::<String, String>::new();
        file.run(|case| {
            assert_eq!(case.directive, "hustings");
            let words: Vec<_> = std::iter::once("hustings").chain(case.input.split_whitespace()).collect();
            let shown = match read(&words) {
                Ok(shown) => shown,
                Err(mistakes) => return mistakes,
            };
            let flags = words.iter().filter_map(|word| word.strip_prefix("--"));
            used.extend(flags.map(|flag| (words[1].to_owned(), flag.split('=').next().unwrap_or(flag).to_owned())));
            let Some(first) = first.get(words[1]) else {
                first.insert(words[1].to_owned(), shown.clone());
                return shown;
            };
            let defaults = values(first);
            values(&shown).into_iter().filter(|value| !defaults.contains(value)).map(|value| value + "\n").collect()
        });
    });
    for of_command in command(Program::Hustings).get_subcommands().filter(|command| !command.is_hide_set()) {
        let own = of_command.get_arguments().filter(|argument| !argument.is_global_set());
        // A label needs the variables of a Pod.
        for flag in own.filter_map(clap::Arg::get_long).filter(|flag| !["help", "pod-label"].contains(flag)) {
            let used_flag = (of_command.get_name().to_owned(), flag.to_owned());
            assert!(
                used.contains(&used_flag),
                "no file in {FILES} uses --{flag} of `hustings {}`",
                of_command.get_name()
            );
        }
    }
}

/// The configuration of a command, or the mistakes in its command line without the lines that they have in common.
fn read(words: &[&str]) -> Result<String, String> {
    match parse(words.iter().map(Into::into)) {
        Ok(cli) => shown(cli).map_err(|error| mistakes(&error)),
        Err(UnparsedArgument::Invalid(error)) => Err(mistakes(&error)),
        Err(UnparsedArgument::ByClap(error)) => {
            let error = error.to_string();
            let (mistake, _usage) = error.split_once("\n\n").unwrap();
            Err(format!("{mistake}\n"))
        }
    }
}

fn mistakes(error: &Hinted) -> String {
    let lines = error.to_string();
    lines.lines().skip(1).map(|line| line.trim_start().to_owned() + "\n").collect()
}

/// The access, the log and the configuration of a command.
fn shown(cli: Cli) -> Result<String, Hinted> {
    let (access, log) = (cli.access()?, cli.global.log());
    let config = match cli.task {
        Task::Controller(flags) => config(|mistakes| flags.read(mistakes))?,
        Task::Campaign(flags) => config(|mistakes| flags.read(mistakes))?,
        #[cfg(target_os = "linux")]
        Task::Run(flags) => config(|mistakes| flags.read(log.clone(), mistakes))?,
        Task::Sidecar(flags) => config(|mistakes| flags.read(mistakes))?,
        Task::Status(flags) => config(|mistakes| flags.read(mistakes))?,
        Task::Rollout(flags) => config(|mistakes| flags.read(mistakes))?,
        Task::Act(act) => config(|mistakes| act.read(mistakes))?,
        other => format!("{other:#?}"),
    };
    Ok(format!("{access:?}\n{log:?}\n{config}\n"))
}

fn config<T: Debug>(read: impl FnOnce(&mut Mistakes) -> Option<T>) -> Result<String, Hinted> {
    Ok(format!("{:#?}", Mistakes::check(read)?))
}

/// Each value in `shown`, after what it is part of.
fn values(shown: &str) -> Vec<String> {
    let (mut values, mut opened) = (Vec::new(), Vec::new());
    for line in shown.lines().map(str::trim) {
        if line.ends_with(['{', '(', '[']) {
            opened.push(line);
        } else if line.starts_with(['}', ')', ']']) {
            opened.pop();
        } else {
            values.push([&opened[..], &[line.trim_end_matches(',')]].concat().join(" "));
        }
    }
    values
}
