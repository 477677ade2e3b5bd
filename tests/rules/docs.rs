//! The documentation agrees with the tree: links lead somewhere, the files and tests that pages name exist, command lines
//! parse, and the map in ARCHITECTURE.md has a row for each file of the two cores.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::case_sensitive_file_extension_comparisons, reason = "the tree has no file with an ending in capitals")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use hustings::cli::UnparsedArgument;
use regex::Regex;

/// The folders at the root whose files pages name.
const FOLDERS: [&str; 8] = ["charts/", "crates/", "deploy/", "docs/", "examples/", "src/", "tests/", "tools/"];

/// What clap says of a command or a flag that does not exist.
const UNKNOWN: [ErrorKind; 2] = [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand];

#[test]
fn each_link_leads_to_a_file_and_its_heading() {
    let link = Regex::new(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)").unwrap();
    let mut broken = Vec::new();
    for page in files(root(), "md") {
        for found in link.captures_iter(&prose(&page)).filter(|found| !found[1].contains("://")) {
            let target = if found[1].is_empty() { page.clone() } else { page.parent().unwrap().join(&found[1]) };
            let has_heading = |name: &str| prose(&target).lines().filter_map(heading).any(|heading| heading == name);
            let leads = target.exists() && found.get(2).is_none_or(|name| has_heading(name.as_str()));
            if !leads {
                broken.push(format!("{}: {}", page.display(), &found[0]));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn each_file_and_each_test_that_a_page_names_exists() {
    let sources: String = files(root(), "rs").iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let is_sentence = Regex::new("^[a-z0-9]+(_[a-z0-9]+){5,}$").unwrap();
    // Metrics have names of this form, too.
    let is_test = |name: &str| is_sentence.is_match(name) && !name.starts_with("hustings_");
    let exists = |name: &str| {
        let (file, test) = name.split_once(": ").unwrap_or((name, ""));
        let is_there = root().join(file).exists() || root().join("tests/testdata").join(file).exists();
        is_there && (test.is_empty() || fs::read_to_string(root().join(file)).unwrap().contains(&format!("fn {test}(")))
    };
    let mut missing = Vec::new();
    for page in files(root(), "md").into_iter().filter(|page| !page.ends_with("CHANGELOG.md")) {
        for name in named(&prose(&page)) {
            let is_file = FOLDERS.iter().any(|folder| name.starts_with(folder)) || is_transcript(name);
            let is_pattern = name.contains(['*', '{', '<', '$']) || name.contains(' ') && !name.contains(": ");
            let is_wrong =
                if is_test(name) { !sources.contains(name) } else { is_file && !is_pattern && !exists(name) };
            if is_wrong {
                missing.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn each_command_line_that_a_page_shows_is_one_of_hustings() {
    let shown = Regex::new(r"(?m)^\s*\$ (?:kubectl )?(hustings .*)$|`(?:kubectl )?(hustings [^`]+)`").unwrap();
    let placeholder = Regex::new("[A-Z]{3,}").unwrap();
    let (mut wrong, mut read) = (Vec::new(), 0);
    for page in files(root(), "md") {
        let text = fs::read_to_string(&page).unwrap();
        for line in shown.captures_iter(&text).filter_map(|found| found.get(1).or(found.get(2))) {
            let line = line.as_str().split(['#', '|', '>', '\n']).next().unwrap();
            let line = placeholder.replace_all(line, "example");
            read += 1;
            let words = line.split_whitespace().filter(|word| !["\\", "..."].contains(word));
            match hustings::cli::parse(words.map(Into::into)) {
                // Prose leaves arguments out.
                Err(UnparsedArgument::ByClap(error)) if !UNKNOWN.contains(&error.kind()) => {}
                Err(error) => wrong.push(format!("{}: {line}: {error:?}", page.display())),
                Ok(_) => {}
            }
        }
    }
    assert!(read >= 80 && wrong.is_empty(), "of {read}: {wrong:#?}");
}

#[test]
fn each_rule_of_the_protocol_names_its_tests() {
    let page = fs::read_to_string(root().join("docs/protocol.md")).unwrap();
    let rules: Vec<_> = page.split("\n- **").skip(1).map(whole).collect();
    assert!(rules.len() >= 20, "only {} rules were found", rules.len());
    for rule in rules.iter().filter(|rule| rule.contains("MUST")) {
        let is_named = named(rule).any(|name| is_transcript(name) || name.contains(".rs"));
        assert!(is_named, "no test is named: {rule}");
    }
}

#[test]
fn the_map_has_a_row_for_each_file_of_the_two_cores() {
    let core = root().join("crates/core/src");
    let is_core = |name: &str| name.starts_with("election") || name.starts_with("elector");
    let names = files(&core, "rs").into_iter().map(|file| file.strip_prefix(&core).unwrap().display().to_string());
    let files: BTreeSet<String> = names.filter(|name| is_core(name) && !name.ends_with("tests.rs")).collect();
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let rows = cells.flat_map(|cell| cell.split(['`', ',', ' ']).map(str::to_owned));
    let rows: BTreeSet<String> = rows.filter(|name| is_core(name) && name.ends_with(".rs")).collect();
    let (without_row, without_file): (Vec<_>, Vec<_>) =
        (files.difference(&rows).collect(), rows.difference(&files).collect());
    assert!(without_row.is_empty() && without_file.is_empty(), "no row: {without_row:#?}, no file: {without_file:#?}");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of the tree with this ending.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found
}

/// A page without its blocks of code.
fn prose(page: &Path) -> String {
    let text = fs::read_to_string(page).unwrap_or_default();
    text.split("```").step_by(2).collect()
}

/// The anchor of a heading, as GitHub makes it.
fn heading(line: &str) -> Option<String> {
    let text = line.strip_prefix('#')?.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|character| character.is_alphanumeric() || " -_".contains(*character));
    Some(kept.collect::<String>().replace(' ', "-"))
}

/// What a text has in backquotes.
fn named(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Whether it names a data file of the core, such as `elector/pings.txt`.
fn is_transcript(name: &str) -> bool {
    name.ends_with(".txt")
        && ["election/", "elector/", "lab/", "stand_in/"].iter().any(|folder| name.starts_with(folder))
}

/// A rule without the text after it: later paragraphs of a rule are indented.
fn whole(rule: &str) -> String {
    let (first, rest) = rule.split_once("\n\n").unwrap_or((rule, ""));
    let rest = rest.split("\n\n").take_while(|paragraph| paragraph.starts_with("  "));
    [first].into_iter().chain(rest).collect::<Vec<_>>().join("\n\n")
}
