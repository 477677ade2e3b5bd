//! Stand in a Hustings election, and hold a Kubernetes Lease safely.
//!
//! A replica nominates itself with a LeaseCandidate, Hustings' controller elects one of them, and the elected one holds
//! the Lease for a [`Term`] after another. Where no controller elects, the candidates do so themselves, unless they are
//! told [to wait](ElectorBuilder::fallback). In direct mode there are neither: whoever finds the Lease free takes it. At no
//! instant do two replicas both read [`Leadership::is_leader`] true, whatever the network and the clocks do, nor
//! other writers within the premises that ARCHITECTURE.md states.
//!
//! ```no_run
//! use hustings_client::{Elector, lease_client};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = lease_client(kube::Config::incluster()?)?;
//! let elector = Elector::builder(client, "default", "my-component").binary_version("1.4.0").build()?;
//! let leadership = elector.leadership();
//! elector
//!     .run(|term| async move {
//!         println!("leading, term {}", term.number);
//!         // Work here; once the term is cancelled, stop soon.
//!         term.cancelled().await;
//!     })
//!     .await?;
//! assert!(!leadership.is_leader());
//! # Ok(())
//! # }
//! ```
//!
//! Losing a term never ends [`Elector::run`]: it campaigns again, until the token of [`ElectorBuilder::shutdown`] is cancelled.
//!
//! | to | use |
//! |---|---|
//! | run one thing, or several, in each term | [`Elector::run`], [`Elector::function`] |
//! | ask from anywhere whether this process leads | [`Elector::leadership`], [`Leadership`] |
//! | let every replica run and the leader write | [`WriteGate`] |
//! | have others refuse what a former leader still writes | [`Term::token`], [`Fence`] |
//! | prefer one replica to another without a controller | [`ElectorBuilder::key`] |
//! | decide by the time of a data point who handles it | [`Leadership::contains`] |
//! | stand for many Leases | [`Elections`] |
//! | test a program without a cluster | [`testing`] |
//!
//! # What the program that links it chooses
//! The version of Kubernetes, by a feature of k8s-openapi, as k8s-openapi asks of every library (its build script fails without
//! one, also where this package is built by itself), and in `main` the crypto provider of rustls:
//!
//! ```toml
//! k8s-openapi = { version = "0.29", features = ["v1_34"] }
//! rustls = { version = "0.23", default-features = false, features = ["ring"] }
//! ```
//!
//! ```ignore
//! let _ = rustls::crypto::ring::default_provider().install_default();
//! ```
//!
//! Feature `metrics` shows the elections of a process on its own prometheus-client registry.
//!
//! Who leads is decided in `hustings-core`, which is pure; this package has the clocks, the requests and the handles.

pub mod api;
pub mod backend;
pub mod clock;
pub mod fence;
pub mod gate;
pub mod keys;
pub mod leadership;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod requests;
pub mod testing;
pub mod time_range;

mod builder;
mod connections;
mod driver;
mod elections;
mod elector;
#[cfg(test)]
mod errors;
mod events;
mod functions;
mod host;
mod instance;
mod nomination;
mod off;
mod telemetry;
mod watch;

pub use backend::Backend;
pub use builder::{ElectorBuilder, InvalidElector, Problem};
pub use elections::Elections;
pub use elector::{Campaign, CampaignError, Elector};
pub use fence::Fence;
pub use functions::{FunctionResult, Functions, OnFailure};
pub use gate::WriteGate;
pub use host::host_name;
pub use hustings_core::elector::{FailOpen, InvalidTiming, Timing, TimingWarning};
pub use hustings_core::model::{self, Moment, WireTime};
pub use instance::InstanceLock;
pub use leadership::{Holder, Leadership, Obstacle, Term, View, Work};
pub use nomination::{Nomination, Pod};
pub use requests::lease_client;
pub use time_range::{HolderChange, TimeRange};
pub use watch::{Pauses, paced};

/// The programs in the guides, which are compiled with the tests of the documentation, and run where no cluster is needed.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/guides/run-for-a-term.md")]
    mod run_for_a_term {}

    #[doc = include_str!("../../../docs/guides/coordinated-upgrade.md")]
    mod coordinated_upgrade {}

    #[doc = include_str!("../../../docs/guides/write-gate.md")]
    mod write_gate {}

    #[doc = include_str!("../../../docs/guides/time-range.md")]
    mod time_range {}

    #[doc = include_str!("../../../docs/guides/preference.md")]
    mod preference {}

    #[doc = include_str!("../../../docs/fencing.md")]
    mod fencing {}
}
