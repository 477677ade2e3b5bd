//! The shipped controller binary against a real API server.

mod assisted;
pub(crate) mod elections;
mod evidence;
mod leader_labels;
mod namespaces;
mod native;
mod native_peer;
mod operations;
mod own_components;
pub(crate) mod peer;
mod replicas;
mod reverted;
mod revoked;
pub(crate) mod stand_in;
mod strange_native;
pub(crate) mod support;
mod upstream;
