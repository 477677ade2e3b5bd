//! The time that the check whether this process leads takes.

use std::hint::black_box;

use anyhow::Result;
use hustings_client::Leadership;

use super::Row;
use super::batches::{BATCH, follows, leads, nanoseconds, row};

pub(super) async fn measure() -> Result<Vec<Row>> {
    let (leadership, _campaign) = leads().await?;
    let other = follows()?;
    let ask = |leadership: &Leadership| {
        for _ in 0..BATCH {
            black_box(black_box(leadership).is_leader());
        }
    };
    Ok(vec![
        row("is_leader(), leading", nanoseconds(|| (), async |()| ask(&leadership)).await, Some(100.0)),
        row("is_leader(), following", nanoseconds(|| (), async |()| ask(&other)).await, Some(100.0)),
    ])
}
