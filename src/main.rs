//! The `hustings` binary.
fn main() {}
