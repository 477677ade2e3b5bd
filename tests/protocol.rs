//! `docs/protocol.md` is enough: a program in another language that knows nothing but that page takes part in elections
//! beside the library, and the page names tests that exist.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod protocol {
    mod faults;
    mod peers;
    mod rules;
    mod stage;
}
#[path = "support/replica.rs"]
mod replica;
