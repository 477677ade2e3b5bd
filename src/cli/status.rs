//! The flags of `hustings status`.

use clap::Args;

use super::acts::{LeasePath, lease_path};
use super::mistakes::Mistakes;
use crate::base::parsers::{output_format, value};
use crate::operate::status::{Config, StatusOutput};

/// The flags of `hustings status`.
#[derive(Args, Clone, Debug)]
pub struct StatusFlags {
    /// The Lease to show in full, by its name or NAMESPACE/NAME; by default one line for each Lease that is enrolled or has candidates
    #[arg(value_name = "LEASE", value_parser = value(lease_path))]
    pub lease: Option<LeasePath>,
    /// Show the Leases of all namespaces
    #[arg(long, short = 'A')]
    pub all_namespaces: bool,
    /// Keep running and show every change; this also measures expiry
    #[arg(long, short)]
    pub watch: bool,
    /// The output format: table, wide, json, yaml or name
    #[arg(long, short, value_name = "FORM", default_value = "table", value_parser = output_format(&OUTPUTS))]
    pub output: StatusOutput,
}

const OUTPUTS: [(&str, StatusOutput); 5] = [
    ("table", StatusOutput::Table),
    ("wide", StatusOutput::Wide),
    ("json", StatusOutput::Json),
    ("yaml", StatusOutput::Yaml),
    ("name", StatusOutput::Name),
];

impl StatusFlags {
    /// The configuration.
    pub fn read(self, mistakes: &mut Mistakes) -> Option<Config> {
        let Self { lease, all_namespaces, watch, output } = self;
        if watch && output == StatusOutput::Name {
            mistakes.add("--output", "name cannot show a change: use table, wide, json or yaml with --watch");
        }
        if all_namespaces && lease.as_ref().is_some_and(|lease| lease.namespace.is_some()) {
            mistakes.add("LEASE", "names a namespace: leave out --all-namespaces");
        }
        let lease = lease.map(|lease| lease.name);
        Some(Config { lease, all_namespaces, watch, output })
    }
}
