//! Standard output, and texts that are safe to print there.

use std::io::Write as _;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// The width of texts outside a terminal, and the greatest width on a terminal.
const WIDTH: usize = 100;

/// Styles for texts on a terminal, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Styles {
    is_on: bool,
}

impl Styles {
    /// Styles if standard output supports them: it is a terminal, and NO_COLOR is not set.
    pub(crate) fn of_stdout() -> Self {
        Self { is_on: AutoStream::choice(&std::io::stdout()) != ColorChoice::Never }
    }

    /// No styles.
    #[cfg(test)]
    pub(crate) const fn none() -> Self {
        Self { is_on: false }
    }

    /// All styles.
    #[cfg(test)]
    pub(crate) const fn all() -> Self {
        Self { is_on: true }
    }

    /// A heading.
    pub(crate) fn heading(self, text: &str) -> String {
        self.styled(text, Style::new().bold())
    }

    /// A text in this color, if any.
    pub(crate) fn colored(self, text: &str, color: Option<AnsiColor>) -> String {
        color.map_or_else(|| text.to_owned(), |color| self.styled(text, color.on_default()))
    }

    /// Whether styles are on.
    pub(crate) const fn are_on(self) -> bool {
        self.is_on
    }

    /// A part that deserves attention.
    pub(crate) fn alert(self, text: &str) -> String {
        self.colored(text, Some(AnsiColor::Red))
    }

    fn styled(self, text: &str, style: Style) -> String {
        if self.is_on { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// The width of texts for people: that of the terminal, up to a limit.
pub(crate) fn width() -> usize {
    width_on(terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)))
}

fn width_on(terminal: Option<usize>) -> usize {
    terminal.map_or(WIDTH, |width| width.min(WIDTH))
}

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
    fn texts_fill_a_narrow_terminal_and_at_most_100_columns() {
        assert_eq!([None, Some(80), Some(100), Some(250)].map(width_on), [100, 80, 100, 100]);
    }

    #[test]
    fn texts_have_colours_only_if_styles_are_on() {
        let styles = Styles { is_on: true };
        for (color, code) in [(AnsiColor::Green, "32"), (AnsiColor::Yellow, "33"), (AnsiColor::Red, "31")] {
            assert_eq!(styles.colored("held", Some(color)), format!("\u{1b}[{code}mheld\u{1b}[0m"));
            assert_eq!(Styles::none().colored("held", Some(color)), "held");
        }
        assert_eq!(styles.colored("Standby", None), "Standby");
    }

    #[test]
    fn texts_from_objects_cannot_control_the_terminal() {
        assert_eq!(visible("web-0 日本語"), "web-0 日本語");
        assert_eq!(visible("a\x1b[31m\n\u{9b}b\u{202e}c"), r"a\u{1b}[31m\n\u{9b}b\u{202e}c");
        for directs in ['\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}'] {
            assert_eq!(visible(&directs.to_string()), format!("\\u{{{:x}}}", u32::from(directs)));
        }
    }
}
