//! Stand in a Hustings election.
