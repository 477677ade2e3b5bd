//! A short stand-in for a value that is only compared for equality.

use std::hash::{DefaultHasher, Hash, Hasher as _};

/// The hash of a value. Bytes, because the models take a `u64` for a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint([u8; 8]);

impl Fingerprint {
    pub(super) fn of(value: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        Self(hasher.finish().to_le_bytes())
    }
}
