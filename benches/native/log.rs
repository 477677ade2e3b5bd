//! What the logs of replicas report.

use hustings_controlplane::Process;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value;

/// The log of a process so far.
pub(crate) fn log(process: &Process) -> String {
    std::fs::read_to_string(process.log()).unwrap_or_default()
}

/// When a replica began to lead (true) or stopped, by a line of its log: that of `tests/kit/clientgo`, or of client-go in a
/// component.
pub(crate) fn change(line: &str) -> Option<(Timestamp, bool)> {
    if line.starts_with('{') {
        let line: Value = serde_json::from_str(line).ok()?;
        let time = line["time"].as_str()?.parse().ok()?;
        return match line["event"].as_str()? {
            "leading" => Some((time, true)),
            "stopped" => Some((time, false)),
            _ => None,
        };
    }
    // client-go ends its work when it stops trying to renew.
    let leads = line.contains("Successfully acquired lease");
    if !leads && !line.contains("Failed to renew lease") {
        return None;
    }
    let year = Timestamp::now().to_zoned(TimeZone::UTC).year();
    let time = DateTime::strptime("%Y%m%d %H:%M:%S%.f", format!("{year}{}", line.get(1..21)?)).ok()?;
    Some((time.to_zoned(TimeZone::UTC).ok()?.timestamp(), leads))
}
