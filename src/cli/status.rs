//! The flags of `hustings status`.

use clap::Args;

use super::values::{namespace_name, object_name};
use super::{GlobalFlags, Values};
use crate::status::{Config, Output};

/// The flags of `hustings status`, unparsed.
#[derive(Args, Clone, Debug)]
pub struct StatusFlags {
    /// The Lease to show in full; without it, every Lease that is enrolled or has candidates, on a line each
    #[arg(value_name = "LEASE")]
    pub lease: Option<String>,
    /// Show the Leases of all namespaces
    #[arg(long, short = 'A')]
    pub all_namespaces: bool,
    /// Keep running and show every change; this also measures expiry
    #[arg(long, short)]
    pub watch: bool,
    /// The output format: table or json
    #[arg(long, short, value_name = "FORM", default_value = "table")]
    pub output: String,
}

impl StatusFlags {
    /// Parses the flags. Returns `None` if a value is invalid; `values` then has the reason.
    pub fn read(&self, global: &GlobalFlags, values: &mut Values) -> Option<Config> {
        if let Some(namespace) = &global.namespace {
            values.take("namespace", namespace, namespace_name);
        }
        let lease = match &self.lease {
            Some(text) => object_name(text).map_err(|reason| values.refuse_operand("LEASE", &reason)).ok().map(Some),
            None => Some(None),
        };
        let output = values.take("output", &self.output, |text| match text {
            "table" => Ok(Output::Table),
            "json" => Ok(Output::Json),
            _ => Err(format!("{text:?} is not an output format: use table or json")),
        });
        Some(Config { lease: lease?, all_namespaces: self.all_namespaces, watch: self.watch, output: output? })
    }
}
