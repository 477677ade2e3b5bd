//! The program in the pods of the tests on a node. While it leads, it reports so to the tests, many times a second.
//!
//! It leads by the first argument:
//! - `command`: as long as it runs, since `hustings run` runs it during a term only;
//! - `library`: while its elector does;
//! - `sidecar`: while the sidecar at 127.0.0.1:4040 answers so;
//! - `relay`: between `leading` and `stopped` on its standard input, as `hustings campaign -o json` prints them;
//! - `beside PROGRAM ARGUMENTS`: while this program on client-go does, by its log. It runs the program, and ends with it;
//! - `pause`: never. It waits for SIGTERM, as the first container of each pod does.
//!
//! The other arguments order a worker in the same container to do harm: `order NAME [VALUE]`. `check` exits with 1 after the order
//! `sicken`, for a liveness probe.

mod harm;
mod report;
mod service;
mod ways;

use std::{env, process::ExitCode};

use anyhow::bail;

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["command"] => ways::command(),
        ["library"] => ways::library(),
        ["sidecar"] => ways::sidecar(),
        ["relay"] => ways::relay(),
        ["beside", program, arguments @ ..] => ways::beside(program, arguments),
        ["pause"] => ways::pause(),
        ["order", name] => harm::order(name, "").map(|()| ExitCode::SUCCESS),
        ["order", name, value] => harm::order(name, value).map(|()| ExitCode::SUCCESS),
        ["check"] => Ok(if harm::is_ordered("sicken") { ExitCode::FAILURE } else { ExitCode::SUCCESS }),
        _ => bail!("unknown arguments {arguments:?}"),
    }
}
