//! `hustings sidecar`, as its program, a load balancer and a Service use it.

mod answers;
pub(crate) mod beside;
mod connected;
mod freezing;
mod labels;
mod manifest;
mod range;
