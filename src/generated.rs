//! Committed files that are generated from the code. A test compares each file with the code, or writes it if
//! `REWRITE=1` is set.

use std::fs;
use std::path::Path;

/// Fails if the file `path` of this repository differs from `content`. With `REWRITE=1`, it writes the file first.
pub(crate) fn assert_generated(path: &str, content: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("REWRITE").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == content, "{path} is not up to date: run the tests with REWRITE=1");
}
