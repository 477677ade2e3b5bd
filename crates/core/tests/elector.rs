//! The elector at exact instants, which the transcripts of `tests/testdata/elector` cannot specify.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "elector/answers.rs"]
mod answers;
#[path = "elector/steps.rs"]
mod steps;
