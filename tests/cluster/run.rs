//! `hustings run` with real commands: no two of them ever run at once.

mod admin;
mod ends;
mod environment;
mod losses;
mod manifest;
mod outside;
mod places;
mod stop_signals;
mod stops;
pub(crate) mod support;
mod times;
mod unreadable;
mod usage;
