//! Hustings in pods, on a real node that all tests share: `cargo test -p hustings-node`.
//!
//! Most tests wait far more than they work, so several run at a time. A test that disturbs the whole node runs alone.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod node {
    mod assisted;
    mod campaign;
    mod contenders;
    mod disturbances;
    mod endings;
    mod ends;
    mod figures;
    mod kinds;
    mod objects;
    mod scales;
    mod services;
    pub(crate) mod stage;
    mod steps;
    mod tokens;
    pub(crate) mod trials;
    mod workload;
}

use std::process::ExitCode;

use hustings_node::{Missing, Node};
use libtest_mimic::Arguments;

use node::{stage::Stage, trials};

/// How many tests run at a time.
const AT_A_TIME: usize = 4;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_A_TIME);
    if arguments.list {
        return libtest_mimic::run(&arguments, trials::all()).exit_code();
    }
    match Node::check() {
        Ok(()) => {}
        Err(Missing::Permission(reason)) => {
            println!("skipped: {reason:#}");
            return ExitCode::SUCCESS;
        }
        Err(Missing::Programs(message)) => {
            eprintln!("error: {message}");
            return ExitCode::FAILURE;
        }
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(Stage::set_up());
    let conclusion = libtest_mimic::run(&arguments, trials::all());
    if conclusion.has_failed() {
        Stage::shared().node.plane().keep_logs();
    }
    conclusion.exit_code()
}
