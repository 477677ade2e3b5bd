//! `examples/manifests/fencing.yaml` on a real API server. The policy rejects writes under a term that is over. In
//! `losses::lockset` they come from processes that were frozen, or from the network.

mod policy;
pub(crate) mod stage;
