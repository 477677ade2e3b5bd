//! The rules of the elector, and of both cores together, as data files: `tests/testdata/elector/*.txt` and
//! `tests/testdata/lab/*.txt` at the root of the workspace. `REWRITE=1 cargo test -p hustings-lab` rewrites the
//! transcripts. Review the difference.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "transcripts/script.rs"]
mod script;

use hustings_lab::Lab;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/testdata");

#[test]
fn an_elector_does_what_its_transcripts_show() {
    play("elector", true);
}

#[test]
fn electors_and_elections_together_do_what_their_transcripts_show() {
    // These transcripts omit what electors do as a matter of routine: reads and successful renewals.
    play("lab", false);
}

fn play(folder: &str, shows_routine: bool) {
    datadriven::walk(&format!("{FILES}/{folder}"), |file| {
        let mut lab = Lab::checked();
        file.run(|case| script::direct(&mut lab, case, shows_routine));
    });
}
