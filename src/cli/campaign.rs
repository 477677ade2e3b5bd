//! The flags of `hustings campaign`.

use clap::Args;

use super::{CandidacyFlags, GlobalFlags, Values};
use crate::campaign::{Config, Output};

/// What `--help` says after the flags.
const EXIT_CODES: &str = "\
Exit codes:
  0    it was told to stop, or nobody reads the lines
  1    there is no way to reach a cluster (no kubeconfig), or it failed otherwise
  2    the command line is refused";

/// The flags of `hustings campaign`, as they were written.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct CampaignFlags {
    /// For what it stands.
    #[command(flatten)]
    pub candidacy: CandidacyFlags,
    /// The form of the lines: text or json
    #[arg(long, short, value_name = "FORM", default_value = "text")]
    pub output: String,
}

impl CampaignFlags {
    /// What the flags mean; `None` where `values` has refused any of them.
    pub fn read(&self, global: &GlobalFlags, values: &mut Values) -> Option<Config> {
        let candidacy = self.candidacy.read(global, values);
        let output = values.take("output", &self.output, |text| match text {
            "text" => Ok(Output::Text),
            "json" => Ok(Output::Json),
            _ => Err(format!("{text:?} is neither text nor json")),
        });
        Some(Config { candidacy: candidacy?, output: output? })
    }
}
