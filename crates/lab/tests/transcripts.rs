//! The rules of the election, of the elector, and of both together, as data files: `tests/testdata/election/*.txt`,
//! `tests/testdata/elector/*.txt` and `tests/testdata/lab/*.txt` at the root of the workspace.
//! `REWRITE=1 cargo test -p hustings-lab` rewrites the transcripts. Review the difference.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "transcripts/acts.rs"]
mod acts;
#[path = "transcripts/arguments.rs"]
mod arguments;
#[path = "transcripts/election.rs"]
mod election;
#[path = "election_world/world.rs"]
mod election_world;
#[path = "transcripts/script.rs"]
mod script;
#[path = "transcripts/shared.rs"]
mod shared;
#[path = "transcripts/show.rs"]
mod show;
#[path = "transcripts/words.rs"]
mod words;

use election_world::World;
use hustings_core::election::Config;
use hustings_lab::Lab;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/testdata");

#[test]
fn elections_match_their_transcripts() {
    datadriven::walk(&format!("{FILES}/election"), |file| {
        let mut world = World::new(Config::default());
        let mut history = Vec::new();
        file.run(|case| election::command(&mut world, &mut history, &mut case.clone()));
    });
}

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
