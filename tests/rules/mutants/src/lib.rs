//! Known bugs, planted to check that the simulation and the models find them.
//!
//! Each mutant is a patch file beside this package's manifest: a bug that a competent engineer might write, and that
//! most often existed somewhere. Unit tests and transcripts find each of them, too. They need no mutants, since they
//! fail in front of the author of a change. `cargo run -p hustings-mutants` applies one mutant after the other to a copy
//! of the tree, and runs the simulated worlds and the models there.

pub mod mutant;
pub mod table;
pub mod tree;
pub mod trial;
