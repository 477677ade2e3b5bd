//! The functions of the module, over bytes.

use std::collections::BTreeMap;

use hustings_core::elector::Draw;
use hustings_core::model::{Moment, Now, WireTime};
use serde_json::json;

use crate::answer;
use crate::config::Config;
use crate::elector::Elector;
use crate::event::Head;

/// The version of the interface.
pub const ABI: u32 = 2;

/// Clocks are below this number, so that every language represents an instant without loss.
const CLOCK_LIMIT: i64 = 1 << 53;

/// All electors of an instance, by their handles.
#[derive(Debug, Default)]
pub struct Module {
    electors: BTreeMap<u32, Elector>,
    last: u32,
}

impl Module {
    /// `hustings_new`: creates an elector with this configuration.
    pub fn create(&mut self, moment_us: i64, wall_us: i64, config: &[u8]) -> String {
        match self.try_create(moment_us, wall_us, config) {
            Ok(answer) => answer,
            Err(error) => answer_error(&error),
        }
    }

    /// `hustings_step`: observes an event, and decides.
    pub fn step(&mut self, elector: u32, moment_us: i64, wall_us: i64, draw: u32, head: &[u8], body: &[u8]) -> String {
        match self.try_step(elector, moment_us, wall_us, draw, head, body) {
            Ok(answer) => answer,
            Err(error) => answer_error(&error),
        }
    }

    /// `hustings_drop`: forgets an elector.
    pub fn forget(&mut self, elector: u32) {
        self.electors.remove(&elector);
    }

    fn try_create(&mut self, moment_us: i64, wall_us: i64, config: &[u8]) -> Result<String, String> {
        let now = now(moment_us, wall_us)?;
        let config = Config::read(config)?;
        let handle = self.last.checked_add(1).ok_or("this instance has no more handles: use another one")?;
        let (elector, created) = Elector::create(config, now)?;
        self.last = handle;
        self.electors.insert(handle, elector);
        Ok(answer::text(&answer::Created { elector: handle, ..created }))
    }

    fn try_step(
        &mut self,
        elector: u32,
        moment_us: i64,
        wall_us: i64,
        draw: u32,
        head: &[u8],
        body: &[u8],
    ) -> Result<String, String> {
        let now = now(moment_us, wall_us)?;
        let head = Head::read(head)?;
        let elector = self.electors.get_mut(&elector).ok_or_else(|| format!("there is no elector {elector}"))?;
        Ok(answer::text(&elector.step(now, Draw(draw), head, body)))
    }
}

fn now(moment_us: i64, wall_us: i64) -> Result<Now, String> {
    for (clock, value) in [("moment_us", moment_us), ("wall_us", wall_us)] {
        if !(0..CLOCK_LIMIT).contains(&value) {
            return Err(format!("{clock} is {value}: a clock shows 0 to 2^53 - 1 microseconds"));
        }
    }
    Ok(Now { moment: Moment::from_micros(moment_us), wall: WireTime::from_micros(wall_us) })
}

fn answer_error(error: &str) -> String {
    json!({ "error": error }).to_string()
}
