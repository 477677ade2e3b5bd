//! The commands on a page of the documentation, and the output that it shows.

use regex::Regex;

/// On a page, this line stands for lines that are left out.
const LEFT_OUT: &str = "...";

/// What varies from run to run, and what replaces it before a comparison.
const VARYING: [(&str, &str); 9] = [
    (r"\b(hello|hustings)-[0-9a-z]+-[0-9a-z]{5}\b", "$1-POD"),
    (r"\b\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME"),
    (r"\btoken +\d+", "token NUMBER"),
    (r"\bKubernetes v[0-9.]+", "Kubernetes VERSION"),
    (r"\b\d+s\b", "AGE"),
    // A replica that starts a second later than the others misses the first election.
    (r"\b(Standby|Unproven)\b", "STANDBY"),
    ("it is the only admissible candidate|no other candidate is known to be live", "WHY"),
    ("it has (an earlier name|existed for longer) than the next live candidate", "WHY"),
    // A holder that stops waits for half a second to be asked, and then releases the Lease.
    (r"\S+ is about to stop and was asked to hand over to (\S+)\.", "$1 was elected: WHY."),
];

/// The commands in the blocks marked `console`, each with the lines of output that the page shows.
pub(crate) fn commands(page: &str) -> Vec<(&str, Vec<&str>)> {
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command, Vec::new())),
                (None, Some((_, shown))) => shown.push(line),
                (None, None) => panic!("output without a command: {line}"),
            }
        }
    }
    commands
}

/// Compares what a command printed with the lines that the page shows. If the page leaves lines out, its other lines occur
/// in their order. A page may show no output at all.
pub(crate) fn compare(shown: &[&str], printed: &str) -> Result<(), String> {
    let (shown, printed) = (normal(&shown.join("\n")), normal(printed));
    let mut rest = printed.iter();
    let is_same = if shown.is_empty() {
        true
    } else if shown.iter().any(|line| line == LEFT_OUT) {
        shown.iter().filter(|line| *line != LEFT_OUT).all(|line| rest.any(|printed| printed == line))
    } else {
        shown == printed
    };
    let difference = || format!("the page shows:\n{}\nthe command prints:\n{}", shown.join("\n"), printed.join("\n"));
    if is_same { Ok(()) } else { Err(difference()) }
}

/// The lines of a text that are not empty, without the width of columns and what varies.
fn normal(text: &str) -> Vec<String> {
    let mut text = text.to_owned();
    for (varying, replacement) in VARYING {
        text = Regex::new(varying).unwrap().replace_all(&text, replacement).into_owned();
    }
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(words).filter(|line| !line.is_empty()).collect()
}
