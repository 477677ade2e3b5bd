//! The configuration of `hustings status`.

/// What to show, and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// The one Lease to show; `None` for every Lease that is enrolled or has candidates.
    pub lease: Option<String>,
    /// Whether to show the Leases of all namespaces.
    pub all_namespaces: bool,
    /// Whether to keep running and show every change.
    pub watch: bool,
    /// The output format.
    pub output: StatusOutput,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusOutput {
    /// For people.
    Table,
    /// For people, with more columns.
    Wide,
    /// For scripts: an array.
    Json,
    /// The same as YAML.
    Yaml,
    /// Only the names, for kubectl.
    Name,
}
