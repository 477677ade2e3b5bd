//! Every patch still applies. A bug that cannot be planted proves nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use hustings_mutants::mutant::Mutant;
use hustings_mutants::tree;

#[test]
fn every_patch_says_what_it_is_and_still_applies() {
    let mutants = Mutant::all().unwrap();
    assert!(mutants.len() >= 5, "{} mutants", mutants.len());
    for mutant in mutants {
        tree::check(mutant.patch.as_deref().unwrap()).unwrap();
    }
}
