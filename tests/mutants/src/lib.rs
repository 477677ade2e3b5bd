//! Known bugs, planted to check that the tests find them.
//!
//! Each mutant is a patch file beside this package's manifest: a bug that a competent engineer might write, and that most
//! often existed somewhere. The product does not know them. `cargo run -p hustings-mutants` applies one after the other to
//! a copy of the tree, and runs the simulation and the tests that must find it there.

pub mod mutant;
pub mod table;
pub mod tree;
pub mod trial;
