//! Harm that a test orders from outside, by a command in the container.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// More than the memory limit of any pod in these tests.
const MORE_THAN_ALLOWED: usize = 1 << 30;

/// Gives an order to the worker of this container.
pub(crate) fn order(name: &str) -> Result<()> {
    fs::write(file(name), "").with_context(|| format!("cannot write {}", file(name).display()))
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

fn file(name: &str) -> PathBuf {
    Path::new("/tmp").join(format!("worker-{name}"))
}
