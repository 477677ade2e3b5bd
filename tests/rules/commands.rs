//! The commands as transcripts: `tests/testdata/commands/*.txt`. `REWRITE=1 cargo test --test commands`
//! rewrites them.
//!
//! Each command runs as users run it, as a process, against an API server that only stores objects. A transcript shows
//! the exit code, standard output, standard error, and the writes. These directives exist:
//!
//! - `server`: the objects and the behaviour of the server from now on, as YAML (see `commands/server.rs`).
//! - `hustings`: a command line, with the words of a shell without variables. `NAME=VALUE` before it sets a variable, and
//!   `SERVER` is the address of the server. With `signal=NAME after=TEXT` the process gets this signal as soon as it has
//!   printed the text. With `writes=no` the transcript does not show the writes, whose number depends on the time. With
//!   `reads=yes` it also shows what the command reads, and the access reviews: group, resource, subresource, name and
//!   namespace. With `as=NAME` the process is started under this name, as kubectl starts a plugin.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

#[path = "commands/server.rs"]
mod server;

use std::fmt::Write as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Command;

use datadriven::TestCase;
use regex::Regex;
use rustix::process::Signal;
use server::Server;

/// The version of the binary, which is `VERSION` in the transcripts.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs the transcript of this name.
fn transcript(name: &str) {
    let file = format!("{}/tests/testdata/commands/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let server = Server::start();
    datadriven::walk(&file, |file| {
        file.run(|case| match case.directive.as_str() {
            "server" => {
                server.set(&serde_yaml::from_str(&case.input.replace("VERSION", VERSION)).unwrap());
                String::new()
            }
            "hustings" => run(&server, case),
            other => panic!("{other}"),
        });
    });
}

fn run(server: &Server, case: &TestCase) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hustings"));
    command.env_clear().env("KUBECONFIG", server.kubeconfig()).env("HOME", "/nowhere");
    for word in words(&case.input) {
        let word = word.replace("SERVER", &server.address());
        match word.split_once('=') {
            Some((name, value)) if !name.starts_with('-') && command.get_args().len() == 0 => command.env(name, value),
            _ => command.arg(word),
        };
    }
    if let Some(names) = case.args.get("as") {
        command.arg0(&names[0]);
    }
    let signal = case.args.get("signal").map(|names| (signal(&names[0]), &*case.args["after"][0]));
    let name = match command.get_args().next().and_then(|name| name.to_str()).unwrap_or_default() {
        "pause" | "resume" | "transfer" | "pin" | "unpin" | "exclude" | "include" | "assist" | "unassist" => {
            "act".to_owned()
        }
        "__complete" => "completion".to_owned(),
        name => name.to_owned(),
    };
    let output = server.wait_for(command, signal);
    // The client library makes one kind of request under its own name.
    let agents = [format!("hustings-{name}/{VERSION}"), format!("hustings hustings-client/{VERSION}")];
    for agent in server.take_agents() {
        assert!(agents.contains(&agent), "{agent}: {}", case.input);
    }
    let mut text = match (output.status.code(), output.status.signal()) {
        (Some(code), _) => format!("exit code {code}\n"),
        (None, signal) => format!("signal {}\n", signal.unwrap()),
    };
    for (name, printed) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        let printed = String::from_utf8(printed.clone()).unwrap();
        if !printed.is_empty() {
            write!(text, "--- {name}\n{printed}").unwrap();
        }
    }
    for read in server.take_reads().iter().filter(|_| case.args.contains_key("reads")) {
        writeln!(text, "--- {read}").unwrap();
    }
    for write in server.take_writes().iter().filter(|_| !case.args.contains_key("writes")) {
        writeln!(text, "--- {write}").unwrap();
    }
    let text = text.replace(&server.address(), "SERVER").replace(VERSION, "VERSION");
    stable(&text.replace(&server.kubeconfig().display().to_string(), "KUBECONFIG"))
}

fn signal(name: &str) -> Signal {
    match name {
        "TERM" => Signal::TERM,
        "INT" => Signal::INT,
        "HUP" => Signal::HUP,
        "CONT" => Signal::CONT,
        "QUIT" => Signal::QUIT,
        other => panic!("{other}"),
    }
}

/// The words of a line. Quotes may surround a word or the end of it.
fn words(line: &str) -> Vec<String> {
    let word = Regex::new(r#"([^\s"]*)"([^"]*)"|[^\s"]+"#).unwrap();
    let words = word.captures_iter(line);
    words
        .map(|word| word.get(2).map_or_else(|| word[0].to_owned(), |end| format!("{}{}", &word[1], end.as_str())))
        .collect()
}

/// Replaces the times and the lengths of time that differ from run to run.
fn stable(text: &str) -> String {
    let time = Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap();
    // Times of objects and of command lines, and the example in a hint.
    let is_given = |time: &str| ["2025-", "2026-12-31T23:59:59Z", "2099-"].iter().any(|year| time.starts_with(year));
    let text = time.replace_all(
        text,
        |found: &regex::Captures<'_>| {
            if is_given(&found[0]) { found[0].to_owned() } else { "TIME".to_owned() }
        },
    );
    let session = Regex::new(r"\b(uid\.[^./]+\.)\d+\.\w+/|\b[0-9a-z]{8,}/(\d+/\d+\b)").unwrap();
    let text = session.replace_all(&text, "${1}SESSION/${2}");
    let folder = Regex::new(r"/hustings-\w{6}\b").unwrap();
    let text = folder.replace_all(&text, "/hustings-NAME");
    // The lengths change the widths of columns.
    let days = Regex::new(r"\b\d+d \d+h\b").unwrap();
    let text = if days.is_match(&text) {
        let columns = Regex::new("(\\S) {2,}").unwrap();
        columns.replace_all(&days.replace_all(&text, "DAYS"), "${1}  ").into_owned()
    } else {
        text.into_owned()
    };
    let seconds =
        Regex::new(r#"(\((?:within )?|in the |\bIn |Within |(?:after|[wW]ithin)Seconds": )\d+(\.\d+)?( s\b|,\n)"#)
            .unwrap();
    let text = seconds.replace_all(&text, "${1}SECONDS${3}");
    Regex::new(r"\b(127\.0\.0\.1|0\.0\.0\.0):\d+").unwrap().replace_all(&text, "ADDRESS").into_owned()
}

#[test]
fn status_prints_leases_and_candidates_in_each_format() {
    transcript("status");
}

#[test]
fn survey_shows_every_lock_and_what_a_crash_of_its_holder_costs() {
    transcript("survey");
}

#[test]
fn check_prints_each_finding_with_a_hint() {
    transcript("check");
}

#[test]
fn the_guide_of_check_describes_each_check_of_its_transcript() {
    let guide = include_str!("../../docs/guides/check.md");
    let finding = Regex::new(r"(?m)^(?:ok|warn|fail|unknown) +([a-z-]+) ").unwrap();
    let checks: Vec<_> = finding.captures_iter(include_str!("../testdata/commands/check.txt")).collect();
    assert!(checks.len() > 50);
    for check in checks {
        assert!(guide.contains(&format!("| `{}` |", &check[1])), "{}", &check[0]);
    }
}

#[test]
fn completion_proposes_names_in_the_cluster() {
    transcript("completion");
}

#[test]
fn explain_reads_everything_that_an_explanation_needs() {
    transcript("explain");
}

#[test]
fn history_prints_the_terms_of_a_lease() {
    transcript("history");
}

#[test]
fn acts_on_leases_are_written_or_refused_with_a_hint() {
    transcript("acts_on_leases");
}

#[test]
fn a_lease_is_assisted_with_what_is_known_of_its_holder() {
    transcript("assist");
}

#[test]
fn acts_on_candidates_are_written_or_refused_with_a_hint() {
    transcript("acts_on_candidates");
}

#[test]
fn rollout_simulates_the_candidates_of_the_cluster() {
    transcript("rollout");
}

#[test]
fn mistakes_on_the_command_line_are_named() {
    transcript("mistakes");
}

#[test]
#[cfg(target_os = "linux")]
fn run_runs_its_command_and_leaves_no_process_behind() {
    transcript("run");
}

#[test]
#[cfg(target_os = "linux")]
fn run_and_sidecar_hold_a_lease_hand_it_over_lose_it_and_give_it_up() {
    transcript("elections");
}

#[test]
fn a_controller_starts_stops_and_fails_with_a_reason() {
    transcript("controller");
}

#[test]
fn campaign_and_sidecar_start_stop_and_fail_with_a_reason() {
    transcript("stands");
}
