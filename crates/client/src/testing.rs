//! Support for tests of programs that stand for election: an in-memory store, and a clock that a test can pause.
//!
//! Electors on one [`MemoryBackend`] interact as in a cluster, but need none. While tokio's clock is paused (feature
//! `test-util`), time advances as soon as every task waits. So a crash costs a test no more than a millisecond:
//!
//! ```
//! use hustings_client::Elector;
//! use hustings_client::testing::MemoryBackend;
//! use std::time::Duration;
//! use tokio::time::Instant;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryBackend::new();
//! let first = Elector::in_memory(&store, "default", "web").identity("first").direct().build()?.start();
//! first.leadership().wait_until_leader().await.ok_or("it ended")?;
//! let second = Elector::in_memory(&store, "default", "web").identity("second").direct().build()?.start();
//! tokio::time::sleep(Duration::from_secs(1)).await;
//!
//! let crashed = Instant::now();
//! first.abort();
//! second.leadership().wait_until_leader().await.ok_or("it ended")?;
//! assert!(!first.leadership().is_leader());
//! assert!(crashed.elapsed() <= Duration::from_secs(16), "the lease lasts 15 s");
//! # Ok(())
//! # }
//! ```
//!
//! An elector with a candidate waits for a controller. Here the test plays that part:
//!
//! ```
//! # use hustings_client::Elector;
//! # use hustings_client::testing::MemoryBackend;
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryBackend::new();
//! let builder = Elector::in_memory(&store, "default", "web").identity("web-0").binary_version("1.2.0");
//! let campaign = builder.build()?.start();
//! store.grant("default", "web", "web-0");
//! let term = campaign.leadership().wait_until_leader().await.ok_or("it ended")?;
//!
//! store.prefer("default", "web", "web-1");
//! term.cancelled().await;
//! # Ok(())
//! # }
//! ```

#[cfg(test)]
mod hand_clock;
mod memory;
mod objects;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hustings_core::model::{Moment, WireTime};
use hyper_util::client::legacy::connect::Connect;
use kube::Client;
use tokio::time::Instant;

#[cfg(test)]
pub(crate) use hand_clock::HandClock;
pub use memory::MemoryBackend;

use crate::clock::Clock;
use crate::connections;

/// A client that treats the connections which `connector` makes as a [`lease_client`](crate::lease_client) treats its own:
/// for simulations of connections that break or fall silent.
pub fn client_over<C>(connector: C, namespace: &str) -> Client
where
    C: Connect + Clone + Send + Sync + 'static,
{
    Client::new(connections::over(connector), namespace)
}

/// The wall clock at the start of a [`TokioClock`]: some day in November 2023.
const WALL_CLOCK_MICROS: i64 = 1_700_000_000_000_000;

/// Tokio's clock, which a test may pause: time then advances when no task has anything to do. It does not count the
/// time of a suspension, so never use it outside tests.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock(Instant);

impl TokioClock {
    /// Returns a clock that starts now.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self(Instant::now()))
    }

    fn micros(&self) -> i64 {
        i64::try_from(self.0.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Moment {
        Moment::from_micros(self.micros())
    }

    fn wall(&self) -> WireTime {
        WireTime::from_micros(self.micros().saturating_add(WALL_CLOCK_MICROS))
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let micros = u64::try_from(moment.as_micros()).unwrap_or(0);
        match self.0.checked_add(Duration::from_micros(micros)) {
            Some(instant) => tokio::time::sleep_until(instant).boxed(),
            None => futures::future::pending().boxed(),
        }
    }
}
