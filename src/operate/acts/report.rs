//! The report of one act, as text or as JSON.

use serde::Serialize;

use crate::base::output::Output;
use crate::base::terminal::visible;
use crate::operate::assisted::{Assistance, AssistanceState};

/// The report of one act on one object.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActReport {
    /// The namespace of the object.
    pub(super) namespace: String,
    /// The Lease.
    pub(super) lease: String,
    /// The candidate, if the act is on a candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) candidate: Option<String>,
    /// The act as a sentence.
    pub(super) act: String,
    /// When the act ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<String>,
    /// The act that it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replaces: Option<String>,
    /// What is known of the holder, if it is now assisted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) assist: Option<Assistance>,
    /// What keeps the act from taking effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
    /// Whether the act was written.
    pub(super) written: bool,
    /// What the controller would report, in a dry run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) forecast: Vec<String>,
    /// Whether the act has taken effect; `None` if the command did not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) happened: Option<bool>,
    /// The outcome of the act as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<String>,
    /// The holder at the end of the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) holder: Option<String>,
    /// The seconds from the sending of the write to the end of the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seconds: Option<f64>,
}

impl ActReport {
    /// Formats the report, with a newline at its end.
    pub(super) fn text(&self, output: Output) -> Result<String, serde_json::Error> {
        if output == Output::Json {
            return Ok(format!("{}\n", serde_json::to_string(self)?));
        }
        let object = match &self.candidate {
            Some(candidate) => format!("candidate {candidate} of Lease {}", self.lease),
            None => format!("Lease {}", self.lease),
        };
        let dry = match (self.written, self.happened) {
            (true, _) => "",
            (false, None) => " (dry run: nothing was written)",
            (false, Some(_)) => " (nothing was written)",
        };
        let mut lines = vec![format!("{object} in namespace {}: {}{dry}", self.namespace, self.act)];
        lines.extend(self.replaces.iter().map(|former| format!("  replaces: {former}")));
        let identified = self.assist.iter().filter(|assistance| assistance.state == AssistanceState::Identified);
        lines.extend(identified.map(|assistance| format!("  identified: {}", assistance.reason)));
        lines.extend(self.warnings.iter().map(|warning| format!("  warning: {warning}")));
        lines.extend(self.forecast.iter().map(|sentence| format!("  the controller would report: {sentence}")));
        lines.extend(self.outcome.iter().map(|outcome| match self.seconds {
            Some(seconds) => format!("  {outcome} ({seconds:.3} s)"),
            None => format!("  {outcome}"),
        }));
        Ok(lines.iter().map(|line| visible(line) + "\n").collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_a_line_for_each_fact_and_escapes_control_characters() {
        let report = ActReport {
            namespace: "n".to_owned(),
            lease: "web".to_owned(),
            act: "elections are paused: \u{1b}[31m".to_owned(),
            forecast: vec!["a was elected.".to_owned()],
            outcome: Some("web-1 leads".to_owned()),
            seconds: Some(0.041_7),
            happened: Some(true),
            written: true,
            ..ActReport::default()
        };
        let text = "Lease web in namespace n: elections are paused: \\u{1b}[31m\n  the controller would report: a was elected.\n  web-1 leads (0.042 s)\n";
        assert_eq!(report.text(Output::Text).unwrap(), text);
        let line = report.text(Output::Json).unwrap();
        assert!(line.ends_with("}\n") && line.contains("\"happened\":true") && !line.contains("candidate"), "{line}");
    }
}
