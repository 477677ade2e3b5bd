//! A label of a Pod.

use std::fmt;

/// A label and its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodLabel {
    /// The key, with its domain if it has one.
    pub key: String,
    /// The value.
    pub value: String,
}

impl fmt::Display for PodLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}
