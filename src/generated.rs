//! Committed files that are generated from the code: a test compares them, and `REWRITE=1` writes them.

use std::fs;
use std::path::Path;

/// Fails if the file `path` of this repository is not `content`, or makes it so under `REWRITE=1`.
pub(crate) fn assert_generated(path: &str, content: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("REWRITE").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == content, "{path} is not up to date: run the tests with REWRITE=1");
}
