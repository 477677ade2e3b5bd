//! Committed files that are generated from the code. A test compares each with the code, or writes it under `REWRITE=1`.

use std::fs;
use std::path::Path;

/// Fails if the file `path` of this repository differs from `content`. Under `REWRITE=1` it writes the file first.
pub(crate) fn assert_generated(path: &str, content: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("REWRITE").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == content, "{path} is not up to date: run the tests with REWRITE=1");
}
