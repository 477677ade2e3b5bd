//! Support for tests of programs that stand for election: an in-memory store, and a clock that a test can pause.
//!
//! Electors on one [`MemoryStore`] interact as in a cluster, but need no cluster. While tokio's clock is paused
//! (feature `test-util`), time advances as soon as every task waits. So a test of a crash takes about a millisecond:
//!
//! ```
//! use hustings_client::Elector;
//! use hustings_client::testing::MemoryStore;
//! use std::time::Duration;
//! use tokio::time::Instant;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::new();
//! let first = Elector::direct(&store, "default", "web").identity("first").build()?.start();
//! first.leadership().wait_until_leader().await.ok_or("it ended")?;
//! let second = Elector::direct(&store, "default", "web").identity("second").build()?.start();
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
//! An elector with a candidate waits for a controller. Here the test acts as the controller:
//!
//! ```
//! # use hustings_client::Elector;
//! # use hustings_client::testing::MemoryStore;
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::new();
//! let builder = Elector::coordinated(&store, "default", "web", "1.2.0").identity("web-0");
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
#[cfg(test)]
mod log;
#[cfg(test)]
mod nomination;

use http::Uri;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::connect::Connection;
use kube::{Client, Config};
use tower::{BoxError, Service};

#[cfg(test)]
pub(crate) use hand_clock::HandClock;
#[cfg(test)]
pub(crate) use log::Log;
#[cfg(test)]
pub(crate) use nomination::nomination;

pub use crate::clock::tokio_clock::TokioClock;
use crate::store::connections;
use crate::store::kubernetes::lease_config;
pub use crate::store::memory::MemoryStore;

/// Returns a client that gets its connections from `connector` and otherwise behaves like a
/// [`lease_client`](crate::lease_client). Use it to simulate connections that break or go silent.
pub fn client_over<C>(connector: C, namespace: &str) -> Client
where
    C: Service<Uri, Error: Into<BoxError>, Future: Send + 'static> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Connection + Send + Unpin + 'static,
{
    let config = lease_config(Config::new(Uri::from_static("http://server")));
    Client::new(connections::over(connector, &config), namespace)
}
