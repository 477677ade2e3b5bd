//! Objects that the API server accepts and no client should write, beside elections that must be unaffected.

mod corpus;
mod elections;
mod fleet;
mod load;
mod probe;
mod rights;
mod rivals;
mod scale;
mod sidecar;
