//! The flags of `hustings campaign`.

use clap::Args;

use super::{CandidacyFlags, GlobalFlags, Values};
use crate::campaign::{Config, Output};

/// What `--help` says after the flags.
const EXIT_CODES: &str = "\
Exit codes:
  0    a signal stopped it, or nothing reads its output any more
  1    it could not connect to a cluster (no kubeconfig), or it failed otherwise
  2    the command line is invalid";

/// The flags of `hustings campaign`, unparsed.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct CampaignFlags {
    /// The flags of the candidacy.
    #[command(flatten)]
    pub candidacy: CandidacyFlags,
    /// The format of the lines: text or json
    #[arg(long, short, value_name = "FORM", default_value = "text")]
    pub output: String,
}

impl CampaignFlags {
    /// Parses the flags. Returns `None` if a value is invalid; `values` then has the reason.
    pub fn read(&self, global: &GlobalFlags, values: &mut Values) -> Option<Config> {
        let candidacy = self.candidacy.read(global, values);
        let output = values.take("output", &self.output, |text| match text {
            "text" => Ok(Output::Text),
            "json" => Ok(Output::Json),
            _ => Err(format!("{text:?} is not an output format: use text or json")),
        });
        Some(Config { candidacy: candidacy?, output: output? })
    }
}
