//! Standard output, and texts that are safe to print there.

use std::io::Write as _;

/// Prints data to standard output and flushes it.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Escapes the control and bidirectional characters in a text from an object.
///
/// A user who may write a Lease must not control an operator's terminal: move its cursor, start a new line, or change
/// the direction of its text.
pub(crate) fn visible(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escaped.extend(character.escape_unicode()),
            _ if character.is_control() => escaped.extend(character.escape_default()),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_from_objects_cannot_control_the_terminal() {
        assert_eq!(visible("web-0 日本語"), "web-0 日本語");
        assert_eq!(visible("a\x1b[31m\n\u{9b}b\u{202e}c"), r"a\u{1b}[31m\n\u{9b}b\u{202e}c");
    }
}
