//! Which objects a list or a watch selects.

use serde_json::Value;

use super::answer::Refusal;
use super::kind::Kind;

/// Conditions, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selector {
    labels: Vec<Condition>,
    fields: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    name: String,
    value: String,
    is_equal: bool,
}

impl Selector {
    pub(super) fn add_labels(&mut self, text: &str) -> Result<(), Refusal> {
        self.labels.extend(parse(text)?);
        Ok(())
    }

    pub(super) fn add_fields(&mut self, kind: Kind, text: &str) -> Result<(), Refusal> {
        let conditions = parse(text)?;
        let is_known = |name: &str| {
            matches!(name, "metadata.name" | "metadata.namespace")
                || (kind == Kind::LeaseCandidate && name == "spec.leaseName")
        };
        if let Some(unknown) = conditions.iter().find(|condition| !is_known(&condition.name)) {
            return Err(Refusal::bad_request(format!("field label not supported: {}", unknown.name)));
        }
        self.fields.extend(conditions);
        Ok(())
    }

    /// The name that it selects, if it selects a single one.
    pub(super) fn name(&self) -> Option<&str> {
        self.fields.iter().find(|field| field.name == "metadata.name" && field.is_equal).map(|field| &*field.value)
    }

    /// Whether it selects `object`.
    pub(super) fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|label| label.holds(labels[&label.name].as_str()))
            && self.fields.iter().all(|field| {
                let value = field.name.split('.').fold(object, |value, part| &value[part]);
                field.holds(Some(value.as_str().unwrap_or_default()))
            })
    }
}

impl Condition {
    fn holds(&self, value: Option<&str>) -> bool {
        (value == Some(&self.value)) == self.is_equal
    }
}

fn parse(text: &str) -> Result<Vec<Condition>, Refusal> {
    let conditions = text.split(',').filter(|part| !part.trim().is_empty()).map(|part| {
        let (name, value, is_equal) = if let Some((name, value)) = part.split_once("!=") {
            (name, value, false)
        } else if let Some((name, value)) = part.split_once("==") {
            (name, value, true)
        } else {
            let (name, value) = part.split_once('=')?;
            (name, value, true)
        };
        Some(Condition { name: name.trim().to_owned(), value: value.trim().to_owned(), is_equal })
    });
    conditions.collect::<Option<_>>().ok_or_else(|| Refusal::bad_request(format!("unable to parse selector {text:?}")))
}
