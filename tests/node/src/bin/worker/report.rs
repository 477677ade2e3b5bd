//! Reports to the tests: datagrams to the address in `REPORTS_TO`.
//!
//! A report says that this process led at some instant between two readings of a clock that all processes of the machine
//! share. Datagrams may be lost without harm: the next one says more.

use std::{
    env,
    net::UdpSocket,
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// Reports of one process.
pub(crate) struct Reporter {
    socket: UdpSocket,
    /// The Lease, the replica, and the process.
    who: String,
    terms: AtomicU64,
}

impl Reporter {
    /// The environment names where the tests listen, and this replica: `REPORTS_TO`, `GROUP`, and `POD_NAME`.
    pub(crate) fn from_env() -> Result<Self> {
        let variable = |name: &str| env::var(name).with_context(|| format!("{name} is not set"));
        let socket = UdpSocket::bind("0.0.0.0:0").context("cannot open a socket")?;
        let address = variable("REPORTS_TO")?;
        socket.connect(&address).with_context(|| format!("cannot reach the tests at {address}"))?;
        // In a namespace of its own, every process may be number 1: the start tells them apart.
        let who = format!("{} {} {}-{}", variable("GROUP")?, variable("POD_NAME")?, process::id(), now());
        Ok(Self { socket, who, terms: AtomicU64::new(0) })
    }

    /// A new term begins: what is reported from now on is not one interval with what was reported before.
    pub(crate) fn begin(&self) {
        self.terms.fetch_add(1, Ordering::Relaxed);
    }

    /// This process led at an instant between these two.
    pub(crate) fn led(&self, after: u64, before: u64) {
        let term = self.terms.load(Ordering::Relaxed);
        let _ = self.socket.send(format!("{} {term} {after} {before}", self.who).as_bytes());
    }
}

/// Nanoseconds since the machine started.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
