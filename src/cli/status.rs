//! The flags of `hustings status`.

use clap::Args;

use super::values::{namespace_name, object_name};
use super::{GlobalFlags, Values};
use crate::status::{Config, Output};

/// The flags of `hustings status`, as they were written.
#[derive(Args, Clone, Debug)]
pub struct StatusFlags {
    /// The Lease to show in full; without it every Lease that takes part
    #[arg(value_name = "LEASE")]
    pub lease: Option<String>,
    /// Show the Leases of all namespaces
    #[arg(long, short = 'A')]
    pub all_namespaces: bool,
    /// Go on, and show every change
    #[arg(long, short)]
    pub watch: bool,
    /// The form of the output: table or json
    #[arg(long, short, value_name = "FORM", default_value = "table")]
    pub output: String,
}

impl StatusFlags {
    /// What the flags mean; `None` where `values` has refused any of them.
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
            _ => Err(format!("{text:?} is neither table nor json")),
        });
        Some(Config { lease: lease?, all_namespaces: self.all_namespaces, watch: self.watch, output: output? })
    }
}
