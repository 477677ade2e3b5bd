//! Findings, their text, and their exit code.

use std::fmt::Write as _;
use std::process::ExitCode;

use anstyle::AnsiColor;
use serde::Serialize;

use crate::base::program::Program;
use crate::base::terminal::{Styles, visible};

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The name of the check.
    pub(super) check: &'static str,
    /// The verdict.
    #[serde(rename = "result")]
    pub(super) verdict: Verdict,
    /// What the check found.
    pub(super) message: String,
    /// How to mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

/// What a finding means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// Elections work; something deserves attention.
    Warn,
    /// A problem.
    Fail,
    /// The check was not possible.
    Unknown,
}

impl Finding {
    pub(super) fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Ok, message: message.into(), hint: None }
    }

    pub(super) fn warn(check: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Warn, message: message.into(), hint: Some(hint.into()) }
    }

    pub(super) fn fail(check: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Fail, message: message.into(), hint: Some(hint.into()) }
    }

    pub(super) fn unknown(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Unknown, message: message.into(), hint: None }
    }

    pub(super) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl Verdict {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Unknown => "unknown",
        }
    }

    const fn color(self) -> AnsiColor {
        match self {
            Self::Ok => AnsiColor::Green,
            Self::Warn | Self::Unknown => AnsiColor::Yellow,
            Self::Fail => AnsiColor::Red,
        }
    }
}

/// Prints one line for each finding, and one for its hint.
pub(super) fn render(findings: &[Finding], program: Program, styles: Styles) -> String {
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or_default();
    let mut text = String::new();
    for Finding { check, verdict, message, hint } in findings {
        let verdict = styles.colored(&format!("{:<7}", verdict.as_str()), Some(verdict.color()));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{verdict}  {check:<width$}  {}", visible(message));
        if let Some(hint) = hint {
            let hint = program.rename(hint);
            let _ = writeln!(text, "{:9}{:width$}  hint: {}", "", "", visible(&hint));
        }
    }
    text.trim_end().to_owned()
}

/// 1 if there is a problem, otherwise 2 if a check was not possible, otherwise 0.
pub(super) fn exit_code(findings: &[Finding]) -> ExitCode {
    let has = |verdict| findings.iter().any(|finding| finding.verdict == verdict);
    match (has(Verdict::Fail), has(Verdict::Unknown)) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::from(2),
        (false, false) => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        vec![
            Finding::ok("crd", "installed"),
            Finding::fail("own-lease", "nobody\nholds it", "look at the pods"),
            Finding::unknown("rights", "no answer"),
        ]
    }

    #[test]
    fn each_finding_has_a_line_and_a_hint_below_it() {
        let expected = "ok       crd        installed\n\
                        fail     own-lease  nobody\\nholds it\n                    hint: look at the pods\n\
                        unknown  rights     no answer";
        assert_eq!(render(&findings(), Program::Hustings, Styles::none()), expected);
        assert!(render(&findings(), Program::Hustings, Styles::all()).starts_with("\x1b[32mok     \x1b[0m  crd"));
    }

    #[test]
    fn a_problem_outweighs_a_check_that_was_not_possible() {
        let all = findings();
        let code = |findings: &[Finding]| format!("{:?}", exit_code(findings));
        assert_eq!(code(&all), format!("{:?}", ExitCode::FAILURE));
        assert_eq!(code(&all[2..]), format!("{:?}", ExitCode::from(2)));
        assert_eq!(code(&all[..1]), format!("{:?}", ExitCode::SUCCESS));
    }

    #[test]
    fn a_hint_names_the_command_as_the_user_types_it() {
        let finding = [Finding::warn("leases", "one", "see `hustings status` and `kubectl describe lease`")];
        for (program, command) in [(Program::Hustings, "hustings status"), (Program::Plugin, "kubectl hustings status")]
        {
            let text = render(&finding, program, Styles::none());
            assert!(text.ends_with(&format!("hint: see `{command}` and `kubectl describe lease`")), "{text}");
        }
    }
}
