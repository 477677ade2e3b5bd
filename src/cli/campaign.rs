//! The flags of `hustings campaign`.

use clap::Args;

use super::Mistakes;
use crate::base::output::Output;
use crate::base::parsers::output_format;
use crate::stand::campaign::Config;
use crate::stand::candidacy::Candidacy;

/// The end of `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0    a signal stopped it, or nothing reads its output any more
  1    it could not connect to a cluster (no kubeconfig), or it failed otherwise
  2    the command line is invalid";

/// The flags of `hustings campaign`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct CampaignFlags {
    /// The flags of the candidacy.
    #[command(flatten)]
    pub candidacy: Candidacy,
    /// The format of the lines: text or json
    #[arg(long, short, value_name = "FORM", default_value = "text",
        value_parser = output_format(&Output::NAMES))]
    pub output: Output,
}

impl CampaignFlags {
    /// The configuration; `None` after a mistake.
    pub fn read(self, mistakes: &mut Mistakes) -> Option<Config> {
        Some(Config { candidacy: self.candidacy.read(mistakes)?, output: self.output })
    }
}
