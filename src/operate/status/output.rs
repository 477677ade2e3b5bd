//! Prints rows in each output format.

use std::io::IsTerminal as _;

use super::config::{Config, StatusOutput};
use super::snapshot::LeaseRow;
use super::table;
use crate::base::terminal::{Styles, print};

/// Prints all rows at once.
pub(super) fn show(config: &Config, rows: &[LeaseRow]) -> anyhow::Result<()> {
    // Move the cursor home and clear the rest. Clearing the whole screen first would make it flicker.
    let clear = if shows_page(config) { "\x1b[H\x1b[J" } else { "" };
    Ok(print(&format!("{clear}{}", text(config, rows)?))?)
}

fn text(config: &Config, rows: &[LeaseRow]) -> anyhow::Result<String> {
    Ok(match config.output {
        StatusOutput::Json if config.watch => serde_json::to_string(rows)? + "\n",
        StatusOutput::Json => serde_json::to_string_pretty(rows)? + "\n",
        // Each change is a separate document.
        StatusOutput::Yaml => format!("---\n{}", serde_saphyr::to_string(&rows)?),
        StatusOutput::Name => names(rows),
        StatusOutput::Table | StatusOutput::Wide => table::render(rows, form(config)) + "\n",
    })
}

/// Prints pages of rows as one output, each page as soon as it has been read.
pub(super) struct Printer<'a> {
    config: &'a Config,
    /// Where the command looks for Leases.
    place: String,
    printed: usize,
}

impl<'a> Printer<'a> {
    pub(super) const fn new(config: &'a Config, place: String) -> Self {
        Self { config, place, printed: 0 }
    }

    /// Prints a page.
    pub(super) fn page(&mut self, rows: &[LeaseRow]) -> anyhow::Result<()> {
        Ok(print(&self.page_text(rows)?)?)
    }

    fn page_text(&mut self, rows: &[LeaseRow]) -> anyhow::Result<String> {
        if rows.is_empty() {
            return Ok(String::new());
        }
        let is_first = self.printed == 0;
        self.printed += rows.len();
        Ok(match self.config.output {
            StatusOutput::Json => {
                // Strip the brackets of the array.
                let array = serde_json::to_string_pretty(rows)?;
                let elements = array.trim_start_matches("[\n").trim_end_matches("\n]");
                format!("{}{elements}", if is_first { "[\n" } else { ",\n" })
            }
            StatusOutput::Yaml => serde_saphyr::to_string(&rows)?,
            StatusOutput::Name => names(rows),
            StatusOutput::Table | StatusOutput::Wide => {
                let form = form(self.config);
                table::render(rows, table::Form { has_header: is_first, ..form }) + "\n"
            }
        })
    }

    /// Ends the output.
    pub(super) fn end(self) -> anyhow::Result<()> {
        Ok(print(&self.end_text())?)
    }

    fn end_text(&self) -> String {
        match (self.config.output, self.printed) {
            (StatusOutput::Json | StatusOutput::Yaml, 0) => "[]\n".to_owned(),
            (StatusOutput::Json, _) => "\n]\n".to_owned(),
            (StatusOutput::Table | StatusOutput::Wide, 0) => {
                format!("no Lease in {} is enrolled or has candidates\n", self.place)
            }
            (StatusOutput::Yaml | StatusOutput::Name | StatusOutput::Table | StatusOutput::Wide, _) => String::new(),
        }
    }
}

/// Whether each change redraws the terminal instead of appending to it.
pub(super) fn shows_page(config: &Config) -> bool {
    config.watch && matches!(config.output, StatusOutput::Table | StatusOutput::Wide) && std::io::stdout().is_terminal()
}

fn form(config: &Config) -> table::Form {
    table::Form {
        is_in_full: config.lease.is_some(),
        is_wide: config.output == StatusOutput::Wide,
        has_header: true,
        styles: Styles::of_stdout(),
    }
}

/// The names as kubectl writes them.
fn names(rows: &[LeaseRow]) -> String {
    rows.iter().flat_map(|row| ["lease.coordination.k8s.io/", &row.lease, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn printed(output: StatusOutput, pages: &[&[&str]]) -> String {
        let config = Config { lease: None, all_namespaces: true, watch: false, output };
        let mut printer = Printer::new(&config, "any namespace".to_owned());
        let row =
            |name: &&str| LeaseRow { namespace: "n".to_owned(), lease: (*name).to_owned(), ..LeaseRow::default() };
        let texts = pages.iter().map(|page| printer.page_text(&page.iter().map(row).collect::<Vec<_>>()).unwrap());
        let text: String = texts.collect();
        text + &printer.end_text()
    }

    #[test]
    fn several_pages_make_one_document_with_one_header() {
        let (both, one, none, other): (&[&str], &[&str], &[&str], &[&str]) = (&["a", "b"], &["a"], &[], &["b"]);
        for pages in [&[][..], &[both], &[one, none, other]] {
            let expected: Vec<&str> = pages.iter().copied().flatten().copied().collect();
            let rows: Vec<Value> = serde_json::from_str(&printed(StatusOutput::Json, pages)).unwrap();
            let of_yaml: Vec<Value> = serde_yaml::from_str(&printed(StatusOutput::Yaml, pages)).unwrap();
            let names =
                |rows: &[Value]| rows.iter().map(|row| row["lease"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
            assert_eq!((names(&rows), names(&of_yaml)), (names(&of_yaml), names(&rows)));
            assert_eq!(names(&rows), expected, "{pages:?}");
            let table = printed(StatusOutput::Table, pages);
            assert_eq!(table.matches("NAMESPACE").count(), usize::from(!expected.is_empty()), "{table}");
        }
        assert_eq!(
            printed(StatusOutput::Name, &[&["a"], &["b"]]),
            "lease.coordination.k8s.io/a\nlease.coordination.k8s.io/b\n"
        );
        assert_eq!(printed(StatusOutput::Name, &[]), "");
        assert!(printed(StatusOutput::Wide, &[]).starts_with("no Lease in any namespace is enrolled"));
    }

    #[test]
    fn each_change_of_a_watch_is_one_line_of_json_or_one_document_of_yaml() {
        let rows = ["a", "b"].map(|name| LeaseRow {
            namespace: "n".to_owned(),
            lease: name.to_owned(),
            ..LeaseRow::default()
        });
        let shown = |output, watch| text(&Config { lease: None, all_namespaces: true, watch, output }, &rows).unwrap();
        let line = shown(StatusOutput::Json, true);
        assert_eq!((line.matches('\n').count(), line.ends_with('\n')), (1, true), "{line}");
        let pretty = shown(StatusOutput::Json, false);
        assert!(pretty.starts_with("[\n  {\n") && pretty.ends_with("\n]\n"), "{pretty}");
        let values = [&line, &pretty].map(|text| serde_json::from_str::<Value>(text).unwrap());
        assert_eq!((values[0].as_array().unwrap().len(), &values[0]), (2, &values[1]));
        let yaml = shown(StatusOutput::Yaml, true);
        assert!(yaml.starts_with("---\n") && yaml.matches("---").count() == 1, "{yaml}");
        assert_eq!(serde_yaml::from_str::<Value>(&yaml).unwrap(), values[0]);
        assert_eq!(shown(StatusOutput::Name, true), "lease.coordination.k8s.io/a\nlease.coordination.k8s.io/b\n");
        assert_eq!(shown(StatusOutput::Table, true).lines().count(), 3);
    }
}
