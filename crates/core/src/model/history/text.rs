//! Names and texts as parts of a line of the history.

/// The maximum number of bytes that a line keeps of a name, or of an ending that another program wrote.
const LONGEST_TEXT: usize = 64;

/// Replaces the middle of a longer text, because names of pods differ at their ends.
const ELLIPSIS: &str = "...";

/// A name as one word of a line.
pub(super) fn word(name: &str) -> String {
    let word = short(name).replace(|character: char| character.is_whitespace(), "_");
    if word.is_empty() { "_".to_owned() } else { word }
}

/// A text as a part of a line: on one line, and of at most [`LONGEST_TEXT`] bytes.
pub(in crate::model) fn short(text: &str) -> String {
    let half = (LONGEST_TEXT - ELLIPSIS.len()) / 2;
    let (head, tail) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len().saturating_sub(half)));
    let kept = match (text.get(..head), text.get(tail..)) {
        (Some(head), Some(tail)) if text.len() > LONGEST_TEXT => format!("{head}{ELLIPSIS}{tail}"),
        _ => text.to_owned(),
    };
    kept.replace(char::is_control, "_")
}
