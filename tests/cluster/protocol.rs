//! `docs/protocol.md` is complete: a program in another language, written from that page only, takes part in elections
//! together with the library. The page names tests that exist.

mod faults;
mod peers;
mod rules;
mod stage;
