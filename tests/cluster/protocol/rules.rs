//! Each MUST of the protocol names a test that breaks when the rule is violated. All tests that the page names exist.

use std::{fs, path::Path};

#[test]
fn each_rule_of_the_protocol_names_tests_that_exist() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/protocol.md")).unwrap();
    let rules: Vec<_> = page.split("\n- **").skip(1).map(whole).collect();
    assert!(rules.len() >= 20, "only {} rules were found", rules.len());
    for rule in rules.iter().filter(|rule| rule.contains("MUST")) {
        assert!(tests(rule).next().is_some(), "no test is named: {rule}");
    }
    let missing: Vec<_> = tests(&page).filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "these do not exist: {missing:#?}");
}

/// A rule without the text after it: later paragraphs of a rule are indented.
fn whole(rule: &str) -> String {
    let (first, rest) = rule.split_once("\n\n").unwrap_or((rule, ""));
    let rest = rest.split("\n\n").take_while(|paragraph| paragraph.starts_with("  "));
    [first].into_iter().chain(rest).collect::<Vec<_>>().join("\n\n")
}

/// The tests that a text names in backquotes: `elector/pings.txt` or `FILE.rs: the_test`.
fn tests(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|name| name.contains(".txt") || name.contains(".rs"))
}

fn exists(name: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    match name.split_once(": ") {
        Some((file, test)) => {
            fs::read_to_string(root.join(file)).is_ok_and(|text| text.contains(&format!("fn {test}(")))
        }
        None if name.contains(".rs") => root.join(name).is_file(),
        None => root.join("tests/testdata").join(name).is_file(),
    }
}
