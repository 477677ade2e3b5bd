//! `docs/protocol.md` is complete: a program in another language, written from that page only, takes part in elections
//! together with the library.

mod faults;
mod peers;
mod stage;
