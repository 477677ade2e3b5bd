//! `examples/manifests/fencing.yaml` on a real API server. The policy rejects writes under a term that is over, also
//! from a process that was frozen and has not noticed it.

mod policy;
pub(crate) mod stage;
mod thawed;
mod writer;
