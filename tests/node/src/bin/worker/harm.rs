//! Harm that a test orders from outside, by a command in the container.
//!
//! The order `step SECONDS` sets the wall clock of the worker's elector forward, or back.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use futures::future::BoxFuture;
use hustings_client::{
    Moment, WireTime,
    clock::{Clock, SystemClock},
};

/// More than the memory limit of any pod in these tests.
const MORE_THAN_ALLOWED: usize = 1 << 30;

/// Gives an order to the worker of this container.
pub(crate) fn order(name: &str, value: &str) -> Result<()> {
    fs::write(file(name), value).with_context(|| format!("cannot write {}", file(name).display()))
}

/// Whether the order was given.
pub(crate) fn is_ordered(name: &str) -> bool {
    file(name).exists()
}

/// Does the harm that was ordered, if any: `devour` takes memory until the kernel kills a process for it.
pub(crate) fn obey() {
    if is_ordered("devour") {
        let memory = vec![1_u8; MORE_THAN_ALLOWED];
        println!("{} bytes are allowed after all", memory.len());
    }
}

/// The machine's clocks, with the step that was ordered.
pub(crate) struct SteppedClock;

impl Clock for SteppedClock {
    fn now(&self) -> Moment {
        SystemClock.now()
    }

    fn wall(&self) -> WireTime {
        let step = fs::read_to_string(file("step")).ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(0_i64);
        WireTime::from_micros(SystemClock.wall().as_micros() + step * 1_000_000)
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        SystemClock.sleep_until(moment)
    }
}

fn file(name: &str) -> PathBuf {
    Path::new("/tmp").join(format!("worker-{name}"))
}
