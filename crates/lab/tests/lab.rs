//! Both cores together as data files: `tests/testdata/lab/*.txt` at the root of the workspace.
//! `REWRITE=1 cargo test -p hustings-lab` rewrites the transcripts. Review the difference.
//!
//! The transcripts omit what electors do as a matter of routine: reads and successful renewals.

use hustings_lab::{Lab, script};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/testdata/lab");

#[test]
fn electors_and_elections_together_do_what_their_transcripts_show() {
    datadriven::walk(FILES, |file| {
        let mut lab = Lab::new();
        lab.shows_routine = false;
        file.run(|case| script::direct(&mut lab, case));
    });
}
