//! Shortens texts from other writers, for use in a message.

use std::fmt;

/// The first characters of a text, at most this many.
pub(super) struct Short<'a>(pub(super) &'a str, pub(super) usize);

impl Short<'_> {
    fn parts(&self) -> (&str, &'static str) {
        match self.0.char_indices().nth(self.1) {
            Some((end, _)) => (self.0.get(..end).unwrap_or_default(), "..."),
            None => (self.0, ""),
        }
    }
}

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, rest) = self.parts();
        write!(f, "{text}{rest}")
    }
}

impl fmt::Debug for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, rest) = self.parts();
        write!(f, "{text:?}{rest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_after_characters_and_not_after_bytes() {
        assert_eq!(Short("äöü", 2).to_string(), "äö...");
        assert_eq!(format!("{:?}", Short("äöü", 3)), "\"äöü\"");
    }
}
