//! One elector: its builder, its campaign, and the task that carries the campaign out.

pub(crate) mod builder;
pub(crate) mod campaign;
pub(crate) mod driver;
pub(crate) mod events;
pub(crate) mod heartbeat;
pub(crate) mod host;
pub(crate) mod keys;
pub(crate) mod off;
pub(crate) mod telemetry;

pub use builder::{ElectorBuilder, InvalidElector, SettingProblem, Storage};
pub use campaign::{Campaign, CampaignError, Elector};
pub use heartbeat::Heartbeat;
pub use host::host_name;
