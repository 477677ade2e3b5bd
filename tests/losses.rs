//! What becomes of terms when real processes are killed and frozen, and the API server and etcd go away. The large runs
//! are `examples/losses`, of the same scenes.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::process::ExitCode;

use libtest_mimic::Arguments;

/// How many scenes are played at a time: they wait for leases to expire, most of the time.
const AT_A_TIME: usize = 5;

mod losses {
    mod adding;
    mod clocks;
    mod freezes;
    mod lockset;
    mod many;
    mod outages;
    pub(crate) mod short;
    mod stage;
    mod wire;
    pub(crate) mod worker;
}
#[allow(dead_code, reason = "the tests of fencing need the rest")]
#[path = "fencing/stage.rs"]
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
