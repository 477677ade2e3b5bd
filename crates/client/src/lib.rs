//! Stand in a Hustings election.

pub mod api;
pub mod clock;
pub mod requests;
