//! The costs of the client library, alone and on a real kube-apiserver: `cargo bench --bench client`.
//!
//! Each module measures one thing in this process and gives rows of one table. Targets are reported, never asserted:
//! the exit code is 1 only if something could not be measured.

mod batches;
mod elections;
mod gate;
mod leadership;
mod succession;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

/// What the client library costs, alone and on a real control plane
#[derive(Parser)]
struct Flags {
    /// Only these modules
    #[arg(long, value_enum)]
    only: Vec<Module>,
    /// In how many elections the process stands
    #[arg(long, default_value_t = 1000)]
    elections: usize,
    /// How many Leases lose their holders at one instant
    #[arg(long, default_value_t = 20)]
    leases: usize,
    /// Prints JSON instead of a table
    #[arg(long)]
    json: bool,
    /// cargo passes this to a benchmark, and not to a test
    #[arg(long, hide = true)]
    bench: bool,
}

/// The modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Module {
    /// Very many elections in one process
    Elections,
    /// Asking whether this process leads
    Leadership,
    /// What the write gate adds to a request
    Gate,
    /// From the end of one term to the beginning of the next
    Succession,
}

/// One number, and the most that it should be.
struct Row {
    what: &'static str,
    value: f64,
    unit: &'static str,
    target: Option<f64>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    if !flags.bench {
        eprintln!("nothing to do: this is a benchmark, run it by `cargo bench --bench client`");
        return ExitCode::SUCCESS;
    }
    // Dropping the measurement ends every process that it started, however the run ends.
    tokio::select! {
        code = measure(&flags) => code,
        _ = tokio::signal::ctrl_c() => ExitCode::from(130),
    }
}

async fn measure(flags: &Flags) -> ExitCode {
    let mut rows = Vec::new();
    let mut code = ExitCode::SUCCESS;
    for module in Module::value_variants() {
        if !flags.only.is_empty() && !flags.only.contains(module) {
            continue;
        }
        match measure_one(*module, flags).await {
            Ok(measured) => rows.extend(measured),
            Err(error) => {
                eprintln!("error: {module:?}: {error:#}");
                code = ExitCode::FAILURE;
            }
        }
    }
    if flags.json {
        println!("{}", Value::Array(rows.iter().map(Row::json).collect()));
    } else {
        for row in &rows {
            println!("{}", row.line());
        }
    }
    code
}

async fn measure_one(module: Module, flags: &Flags) -> Result<Vec<Row>> {
    match module {
        Module::Elections => elections::measure(flags.elections).await,
        Module::Leadership => leadership::measure().await,
        Module::Gate => gate::measure().await,
        Module::Succession => succession::measure(flags.leases).await,
    }
}

impl Row {
    fn new(what: &'static str, value: f64, unit: &'static str, target: Option<f64>) -> Self {
        Self { what, value, unit, target }
    }

    fn line(&self) -> String {
        let Self { what, value, unit, target } = self;
        let target =
            target.map(|target| format!("target {target} {unit}: {}", if *value <= target { "met" } else { "MISSED" }));
        format!("{what:<58} {value:>10.2} {unit:<5} {}", target.unwrap_or_default()).trim_end().to_owned()
    }

    fn json(&self) -> Value {
        let Self { what, value, unit, target } = self;
        json!({ "what": what, "value": value, "unit": unit, "target": target })
    }
}
