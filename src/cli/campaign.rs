//! The flags of `hustings campaign`.

use clap::Args;

use super::{CandidacyFlags, GlobalFlags, Values};
use crate::campaign::{Config, Output};

/// The flags of `hustings campaign`, as they were written.
#[derive(Args, Clone, Debug)]
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
