//! `examples/manifests/fencing.yaml` on a real API server: the policy rejects writes under a term that is over, also from
//! a process that was frozen and does not know that yet.

mod policy;
mod stage;
mod thawed;
mod writer;
