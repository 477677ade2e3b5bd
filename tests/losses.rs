//! Terms while real processes are killed and frozen, and while the API server and etcd are away. `examples/losses` runs
//! the same scenes with production timing.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::process::ExitCode;

use libtest_mimic::Arguments;

/// How many scenes run at a time. Most of the time they wait for leases to expire.
const AT_A_TIME: usize = 5;

mod losses {
    mod adding;
    mod clocks;
    mod freezes;
    mod lockset;
    mod many;
    mod native;
    mod outages;
    #[allow(dead_code, reason = "the example plays the rest of the scenes")]
    mod replication;
    pub(crate) mod short;
    mod stage;
    mod wire;
    pub(crate) mod worker;
}
#[allow(dead_code, reason = "the tests of fencing need the rest")]
#[path = "cluster/fencing/stage.rs"]
mod fenced;
#[path = "support/replica.rs"]
mod replica;

fn main() -> ExitCode {
    if losses::worker::carry_out_orders() {
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_A_TIME);
    libtest_mimic::run(&arguments, losses::short::trials()).exit_code()
}
