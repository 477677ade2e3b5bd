//! The text of fields that a record does not represent exactly.
//!
//! A record has changed when its text has. A time that does not parse, a number out of range and a text that is cut all
//! become the same value as others like them. Without this fingerprint, a holder whose times change but do not parse
//! would seem silent, and would be deposed.

/// A fingerprint of the text of those fields that the other fields of a record do not represent exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unparsed(u32);

impl Unparsed {
    /// The record represents every field exactly.
    pub const NONE: Self = Self(0);

    /// Adds the `text` of one `field`. The order of the fields must always be the same.
    #[must_use]
    pub fn with(self, field: &str, text: &str) -> Self {
        let start = if self == Self::NONE { FNV_OFFSET } else { self.0 };
        let bytes = field.bytes().chain([0]).chain(text.bytes()).chain([0]);
        // Zero means that there is no such field.
        Self(bytes.fold(start, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(FNV_PRIME)).max(1))
    }
}

/// FNV-1a with 32 bits, which fit into a gap of the records.
const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_texts_and_other_fields_have_other_fingerprints() {
        let one = Unparsed::NONE.with("renewTime", "soon");
        assert_ne!(one, Unparsed::NONE);
        assert_eq!(one, Unparsed::NONE.with("renewTime", "soon"));
        assert_ne!(one, Unparsed::NONE.with("renewTime", "later"));
        assert_ne!(one, Unparsed::NONE.with("acquireTime", "soon"));
        assert_ne!(one, one.with("acquireTime", "soon"));
    }
}
