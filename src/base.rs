//! What every wing stands on: access to the cluster, messages for people, and small parsers.
//!
//! Nothing here depends on another module of this package.

pub mod access;
pub mod cluster;
pub mod duration;
pub(crate) mod environment;
pub mod hint;
pub(crate) mod nearest;
pub mod output;
pub(crate) mod pages;
pub(crate) mod parsers;
pub mod program;
pub(crate) mod reviews;
pub mod signals;
pub(crate) mod table;
pub(crate) mod terminal;
pub(crate) mod words;
