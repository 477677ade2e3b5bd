//! Objects that the API server accepts and no client should write, alongside elections that they must not affect.

mod corpus;
mod elections;
mod fleet;
mod load;
mod probe;
mod rights;
mod rivals;
mod scale;
mod sidecar;
