//! Bugs that Hustings does not have, and whether they would be found.
//!
//! Each mutant is a patch file beside this package's manifest: a bug that a competent engineer might have written, and
//! that somebody mostly did. Nothing in the product knows of them. `cargo run -p hustings-mutants` applies one after
//! the other to a copy of the tree, and there runs the simulation and the tests that are to find it.

pub mod mutant;
pub mod table;
pub mod tree;
pub mod trial;
