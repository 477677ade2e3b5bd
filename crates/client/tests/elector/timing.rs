//! Durations that users of client-go have configured.

use std::time::Duration;

use anyhow::Result;
use hustings_client::testing::MemoryStore;
use hustings_client::{Durations, Elector};

use super::permissions::Log;

#[tokio::test(start_paused = true)]
async fn istios_durations_are_accepted_with_a_warning_and_hold_a_lease() -> Result<()> {
    let (log, _guard) = Log::listen();
    let build = |timing| {
        let builder = Elector::direct(&MemoryStore::new(), "n", "l").identity("a");
        builder.timing(timing).build()
    };
    build(Durations::default())?;
    assert_eq!(log.lines(), [""; 0]);
    let istio = Durations {
        lease_duration_seconds: 30,
        renew_deadline: Duration::from_secs(15),
        retry_period: Duration::from_millis(7_500),
        ..Durations::default()
    };
    let campaign = build(istio)?.start();
    let warnings: Vec<_> = log.lines().into_iter().filter(|line| line.contains("WARN")).collect();
    let warns = |line: &String| line.contains("one lost renewal may cost the term") && line.contains("n/l");
    assert!(warnings.len() == 1 && warnings.iter().all(warns), "{warnings:?}");
    let term = campaign.leadership().wait_until_leader().await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(campaign.leadership().is_leader());
    assert_eq!(campaign.leadership().term(), term);
    Ok(())
}
