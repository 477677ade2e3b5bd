//! The time range of a term, in a program for which the reported end must stay true.

use std::time::Duration;

use anyhow::{Context, Result};
use hustings_client::Durations;
use jiff::{SignedDuration, Timestamp};

use super::stage::{SHORT, Stage, eventually, leads, patiently};

/// A lease that outlasts a stall of the machine, so that the second does not lead before the test has read it.
const TIMING: Durations =
    Durations { lease_duration_seconds: 15, renew_deadline: Duration::from_millis(14_500), ..SHORT };

#[tokio::test]
async fn the_reported_end_of_a_range_stays_true_if_the_elector_keeps_its_lease_on_stop() -> Result<()> {
    let stage = Stage::with_open_lease("range-kept").await?;
    let campaign = stage.direct("first")?.timing(TIMING).keep_on_stop().build()?.start();
    let first = campaign.leadership();
    let term = leads(&first).await?;
    let next = stage.direct("second")?.timing(TIMING).build()?.start();
    let second = next.leadership();
    eventually("the second sees the holder", || async { second.holder() }).await?;

    patiently("the first stops", campaign.stop()).await??;
    assert!(!first.is_leader());
    let end = first.range().and_then(|range| range.end).context("the first has a range with an end")?;
    let kept = stage.lease().await?.record;
    assert_eq!((kept.holder.as_deref(), kept.token), (Some("first"), Some(term.token)), "it is not given up");
    assert!(!kept.is_open() && !second.is_leader(), "{kept:?}");

    // No client has written the Lease since then: it has expired.
    let next_term = leads(&second).await?;
    assert!(Timestamp::now() >= end, "the second leads before {end}");
    assert_eq!(next_term.token, kept.resource_version, "its token is the version on which its claim rests");
    assert_eq!(next_term.number, term.number + 1);
    let begins = second.range().context("the second has a range")?.start;
    assert!(begins >= end, "{begins} {end}");
    let last = end - SignedDuration::from_micros(1);
    assert!(first.contains(last) && !first.contains(end), "{last}");
    assert!(second.contains(begins) && !second.contains(last), "{begins}");
    patiently("the second stops", next.stop()).await??;
    Ok(())
}
