//! Stand in a Hustings election.

pub mod api;
