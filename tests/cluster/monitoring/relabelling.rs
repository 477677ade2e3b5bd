//! The rules of docs/coming-from.md that give Hustings' gauges the names of Google Managed Prometheus.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;

const GUIDE: &str = include_str!("../../../docs/coming-from.md");

type Labels = BTreeMap<String, String>;

/// A rule of Prometheus, with the default action `replace`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    source_labels: Vec<String>,
    regex: String,
    target_label: String,
    replacement: String,
}

impl Rule {
    /// Joins the labels by `;`, matches the whole text, and removes a label that becomes empty, as Prometheus does.
    fn apply(&self, labels: &mut Labels) {
        let values: Vec<_> =
            self.source_labels.iter().map(|name| labels.get(name).map_or("", String::as_str)).collect();
        let regex = Regex::new(&format!("^(?:{})$", self.regex)).unwrap();
        let joined = values.join(";");
        let Some(found) = regex.captures(&joined) else { return };
        let mut value = String::new();
        found.expand(&self.replacement, &mut value);
        labels.insert(self.target_label.clone(), value);
        labels.retain(|_, value| !value.is_empty());
    }
}

#[test]
fn gauges_get_the_names_and_the_label_of_google_managed_prometheus_and_other_metrics_stay() {
    let block = GUIDE.split("```yaml\n").find(|block| block.starts_with("metric_relabel_configs:")).unwrap();
    let block = block.split("```").next().unwrap();
    let rules = BTreeMap::<String, Vec<Rule>>::deserialize(serde_yaml::Deserializer::from_str(block)).unwrap();
    let labels = |labels: &[(&str, &str)]| -> Labels {
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    for (name, renamed) in [
        ("hustings_lease_held", "prometheus_engine_lease_is_held"),
        ("hustings_lease_failing_open", "prometheus_engine_lease_failing_open"),
        ("hustings_lease_terms_total", "hustings_lease_terms_total"),
    ] {
        let mut series = labels(&[("__name__", name), ("lease", "shop/web"), ("job", "web")]);
        for rule in &rules["metric_relabel_configs"] {
            rule.apply(&mut series);
        }
        let key = if renamed == name { "lease" } else { "key" };
        assert_eq!(series, labels(&[("__name__", renamed), (key, "shop/web"), ("job", "web")]));
    }
}
