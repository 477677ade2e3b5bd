//! The client library of Hustings: stand for election, and hold a Kubernetes Lease safely.
//!
//! Each replica nominates itself with a LeaseCandidate. Hustings' controller elects one candidate, and the elected
//! replica takes up the Lease: its [`Term`] begins. Without a controller, the candidates elect among themselves, unless
//! the caller [disables that](ElectorBuilder::fallback). In direct mode there is neither a controller nor a candidate:
//! a replica claims the Lease when it finds it free.
//!
//! [`Leadership::is_leader`] never returns true in two replicas at the same instant, whatever the network and the
//! clocks do. ARCHITECTURE.md states the premises, such as what other writers of the Lease must not do.
//!
//! ```no_run
//! use hustings_client::{Elector, lease_client};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = lease_client(kube::Config::incluster()?)?;
//! let elector = Elector::coordinated(client, "default", "my-component", "1.4.0").build()?;
//! let leadership = elector.leadership();
//! elector
//!     .run(|term| async move {
//!         println!("leading, term {}", term.number);
//!         // Work here. Stop soon after the term is cancelled.
//!         term.cancelled().await;
//!     })
//!     .await?;
//! assert!(!leadership.is_leader());
//! # Ok(())
//! # }
//! ```
//!
//! [`Elector::run`] does not end with a term. The elector campaigns again until the token passed to
//! [`ElectorBuilder::shutdown`] is cancelled.
//!
//! | to | use |
//! |---|---|
//! | run one thing, or several, in each term | [`Elector::run`], [`Elector::function`] |
//! | check from anywhere whether this process leads | [`Elector::leadership`], [`Leadership`] |
//! | run every replica, and let only the leader write | [`WriteGate`] |
//! | have the server reject writes of a former leader | [`Term::token`], [`Fence`] |
//! | prefer one replica to another without a controller | [`ElectorBuilder::key`] |
//! | assign each data point to one replica by the point's timestamp | [`Leadership::contains`] |
//! | stand for many Leases | [`Elections`] |
//! | release the Lease of a program that aborts on a panic | [`release_on_panic`] |
//! | test a program without a cluster | [`testing`] |
//!
//! # Dependencies of your program
//! A program that links this library makes two choices:
//!
//! - The Kubernetes version, as a feature of k8s-openapi. Without it, the build script of k8s-openapi fails, even when
//!   you build this package on its own.
//! - The crypto provider of rustls, installed in `main`. The feature `ring` is on by default. To use aws-lc-rs instead,
//!   turn the default features off and enable the feature `aws-lc-rs`, which needs cmake and a C compiler. For a FIPS
//!   build, also enable rustls' feature `fips`.
//!
//! The library is not published yet, so name your copy of the repository. kube's default features would add openssl.
//!
//! ```toml
//! hustings-client = { path = "../hustings/crates/client" }
//! k8s-openapi = { version = "0.29", features = ["v1_34"] }
//! kube = { version = "5", default-features = false, features = ["client", "rustls-tls"] }
//! rustls = { version = "0.23", default-features = false, features = ["ring"] }
//! tokio = { version = "1", features = ["macros", "rt-multi-thread", "signal"] }
//! tokio-util = "0.7"
//! ```
//!
//! ```ignore
//! let _ = rustls::crypto::ring::default_provider().install_default();
//! ```
//!
//! - The feature `metrics` adds the metrics of all elections of the process to a prometheus-client registry.
//! - The feature `crd` adds the CRD of LeaseCandidate and the types that define it. It needs schemars and kube's derive
//!   macros.
//!
//! The pure package `hustings-core` makes the decisions. This package adds clocks, requests and handles.

pub mod access;
pub mod clock;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod store;
pub mod testing;

mod elector;
#[cfg(test)]
mod errors;
mod instance;
mod leadership;
mod watch;
mod work;

pub use elector::keys::{DefaultRevision, Key, follow_istio_key, istio_key, lease_of_group};
pub use elector::{
    Campaign, CampaignError, Elector, ElectorBuilder, Heartbeat, InvalidElector, SettingProblem, Storage, host_name,
};
pub use hustings_core::elector::{Durations, FailOpen, InvalidTiming, Timing, TimingWarning};
pub use hustings_core::model::{self, Moment, WireTime};
pub use hustings_wire::api;
pub use instance::{InstanceLock, UNKNOWN_CONTAINER};
pub use leadership::{Holder, HolderChange, Leadership, Obstacle, Term, TimeRange, View, Work};
pub use store::lease_client;
pub use store::shared::Elections;
pub use work::gate;
pub use work::{Fence, FunctionResult, Functions, OnFailure, WriteGate, release_on_panic};

/// The programs in the guides. The documentation tests compile them, and run those that need no cluster.
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

    #[doc = include_str!("../../../docs/coming-from.md")]
    mod coming_from {}

    #[doc = include_str!("../../../docs/fencing.md")]
    mod fencing {}
}
