//! The elector's behaviour as data files: `tests/testdata/elector/*.txt` at the root of the workspace, in the script
//! language of the lab. `REWRITE=1 cargo test -p hustings-core --test elector` rewrites the transcripts. Review the
//! diff.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "elector/answers.rs"]
mod answers;
#[path = "elector/steps.rs"]
mod steps;

use hustings_lab::{Lab, script};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/testdata/elector");

#[test]
fn the_transcripts_are_as_written() {
    datadriven::walk(FILES, |file| {
        let mut lab = Lab::new();
        file.run(|case| script::direct(&mut lab, case));
    });
}
