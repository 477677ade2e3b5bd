//! The log lines of an elector, as values.

use std::borrow::Cow;

use hustings_core::elector::{EditedField, Loss, Note, NoteSeverity};

/// One line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How much it matters.
    pub severity: NoteSeverity,
    /// What it is, for programs.
    pub code: &'static str,
    /// What it is, for people.
    pub text: Cow<'static, str>,
    /// The values that belong to it. An absent value is left out.
    pub fields: Vec<(&'static str, Field)>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// A text.
    Text(String),
    /// A number. It may be as large as a token.
    Number(u64),
}

impl Line {
    /// A line without fields.
    pub fn new(severity: NoteSeverity, code: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        Self { severity, code, text: text.into(), fields: Vec::new() }
    }

    /// The lines for a note.
    pub fn of_note(note: &Note) -> Vec<Self> {
        let line = Self::new(note.severity(), code(note), note.sentence());
        vec![match note {
            Note::Began { number, token } => line.with("number", u64::from(*number)).with("token", *token),
            Note::Asked { holder } | Note::Lost(Loss::NotMine { holder: Some(holder) }) => {
                line.with("holder", &**holder)
            }
            Note::HandOverAsked { to } => line.with("to", &**to),
            Note::Resigned { cooldown } => line.with("rest_seconds", cooldown.as_secs()),
            Note::NamesakeHolds { session } | Note::Reclaims { session } => line.with("session", &**session),
            Note::CandidateOfAnotherLease { lease_name }
            | Note::NamesakeAsked { lease_name }
            | Note::NamesakeReplaced { lease_name } => line.with("lease_name", &**lease_name),
            Note::Withheld(why) => line.with("why", why.to_string()),
            Note::CandidateEdited { fields, again_and_again } => return of_edits(&line, fields, *again_and_again),
            _ => line,
        }]
    }

    /// The same line with one more field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Field>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// The text in a field.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.fields.iter().find_map(|(field, value)| match value {
            Field::Text(text) if *field == name => Some(text.as_str()),
            _ => None,
        })
    }
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Field {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

fn of_edits(line: &Line, fields: &[EditedField], again_and_again: bool) -> Vec<Line> {
    let mut lines: Vec<_> = fields
        .iter()
        .map(|EditedField { field, found, own }| {
            line.clone().with("field", *field).with("found", &**found).with("own", &**own)
        })
        .collect();
    if again_and_again {
        lines.push(Line::new(
            NoteSeverity::Warning,
            "candidate-edited-again",
            "another client changes the candidate again and again: look for a file that is applied repeatedly, or another \
             process of this identity; the next changes are not logged",
        ));
    }
    lines
}

const fn code(note: &Note) -> &'static str {
    match note {
        Note::Began { .. } => "began",
        Note::Lost(_) => "lost",
        Note::HandOverAsked { .. } => "hand-over-asked",
        Note::Resigned { .. } => "resigned",
        Note::Asked { .. } => "asked",
        Note::GaveUp => "gave-up",
        Note::LeftToRunOut => "left-to-run-out",
        Note::GiveUpAbandoned => "give-up-abandoned",
        Note::WorkDidNotStop => "work-did-not-stop",
        Note::NamesakeHolds { .. } => "namesake-holds",
        Note::Reclaims { .. } => "reclaims",
        Note::LandedTooLate => "landed-too-late",
        Note::Conflict => "conflict",
        Note::Refused => "refused",
        Note::OutcomeUnknown => "outcome-unknown",
        Note::WriteReverted => "write-reverted",
        Note::CandidateWriteReverted => "candidate-write-reverted",
        Note::CandidateDeleted => "candidate-deleted",
        Note::NoController => "no-controller",
        Note::NoCandidates => "no-candidates",
        Note::Withheld(_) => "withheld",
        Note::OwnerDropped => "owner-dropped",
        Note::CandidateOfAnotherLease { .. } => "candidate-of-another-lease",
        Note::NamesakeAsked { .. } => "namesake-asked",
        Note::NamesakeReplaced { .. } => "namesake-replaced",
        Note::CandidateEdited { .. } => "candidate-edited",
        Note::Emptied => "emptied",
    }
}
