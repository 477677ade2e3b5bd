//! The commands that stand in elections, and what they share. They hold Leases through `hustings-client`.

pub mod campaign;
pub mod candidacy;
pub(crate) mod copy_binary;
#[cfg(target_os = "linux")]
pub mod run;
pub mod sidecar;
