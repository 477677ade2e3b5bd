//! Renders an explanation as text, wrapped to a width.

use std::time::Duration;

use hustings_core::model::CandidateKey;
use textwrap::{Options, WordSplitter, fill};

use super::explanation::{CandidateNote, ExplainedWait, Explanation};
use super::words::duration;
use crate::base::terminal::{Styles, visible};
use crate::operate::status::{color_of, color_of_candidate};

/// The narrowest line, even on a narrower terminal.
const NARROWEST: usize = 40;

/// Renders the explanation, with a newline at its end.
pub(crate) fn render(explanation: &Explanation, width: usize, styles: Styles) -> String {
    let width = width.max(NARROWEST);
    let Explanation { namespace, lease, state, leader, candidates, prospect, waits, acts, controllers, .. } =
        explanation;
    let title = format!("Lease {} in namespace {}: ", visible(lease), visible(namespace));
    let state = styles.colored(state.as_str(), Some(color_of(*state)));
    let mut blocks = vec![format!("{}{state}", styles.heading(&title))];
    blocks.push(paragraph(leader, width));
    if !candidates.is_empty() {
        blocks.push(section(
            "Candidates, best first",
            candidates.iter().map(|note| candidate(note, candidates, width, styles)),
            styles,
        ));
    }
    let asks = match &prospect.dead {
        Some(dead) => format!("If {} died now", visible(dead)),
        None => "What happens next".to_owned(),
    };
    blocks.push(section(&asks, [indented("  ", "  ", &prospect.sentences.join(" "), width)], styles));
    if !waits.is_empty() {
        blocks.push(section("What the election waits for", waits.iter().map(|one| wait(one, width)), styles));
    }
    let acts = if acts.is_empty() { &vec!["None.".to_owned()] } else { acts };
    blocks.push(section("Acts of administrators", acts.iter().map(|act| indented("  ", "  ", act, width)), styles));
    if !controllers.is_empty() {
        let lines = controllers.iter().map(|sentence| indented("  ", "  ", sentence, width));
        blocks.push(section("Controllers", lines, styles));
    }
    blocks.join("\n\n") + "\n"
}

fn section(title: &str, lines: impl IntoIterator<Item = String>, styles: Styles) -> String {
    let lines: Vec<_> = std::iter::once(styles.heading(title)).chain(lines).collect();
    lines.join("\n")
}

fn candidate(note: &CandidateNote, all: &[CandidateNote], width: usize, styles: Styles) -> String {
    let key = CandidateKey { name: note.name.as_str().into(), kind: note.kind };
    let rank = note.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
    let widest = all.len().to_string().len();
    let label = format!("  {rank:>widest$}. {} {}", visible(&key.to_string()), visible(&note.claims));
    let state = note.state.map(|state| format!(": {}", styles.colored(state, color_of_candidate(state))));
    let state = state.unwrap_or_default();
    let indent = " ".repeat(widest + 4);
    format!("{label}{state}\n{}", indented(&indent, &indent, &note.reason, width))
}

fn wait(wait: &ExplainedWait, width: usize) -> String {
    let end = match (&wait.until, wait.within_seconds) {
        (Some(until), _) => format!("until {until}"),
        (None, Some(seconds)) => {
            format!("within {}", duration(Duration::try_from_secs_f64(seconds).unwrap_or_default()))
        }
        (None, None) => "until it is done".to_owned(),
    };
    let text = format!("{}, {} ({}): {}", wait.of, wait.timer, end, wait.meaning);
    indented("  ", "    ", &text, width)
}

fn paragraph(sentences: &[String], width: usize) -> String {
    indented("", "", &sentences.join(" "), width)
}

fn indented(first: &str, further: &str, text: &str, width: usize) -> String {
    // Names and times contain hyphens. A line break at a hyphen would make them hard to copy.
    let options = Options::new(width).initial_indent(first).subsequent_indent(further);
    let options = options.break_words(false).word_splitter(WordSplitter::NoHyphenation);
    fill(&visible(text), options)
}
