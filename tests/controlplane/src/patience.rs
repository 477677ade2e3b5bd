//! How tests wait: for a condition, never for a fixed time.

use std::time::{Duration, Instant};

/// How long anything may take on a machine that compiles at the same time.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(30);

/// Tries until it succeeds, for as long as patience lasts. Then returns the last error.
pub async fn eventually<T, E>(attempt: impl AsyncFnMut() -> Result<T, E>) -> Result<T, E> {
    within(PATIENCE, attempt).await
}

/// The same, for as long as `limit`.
pub async fn within<T, E>(limit: Duration, mut attempt: impl AsyncFnMut() -> Result<T, E>) -> Result<T, E> {
    let started = Instant::now();
    loop {
        match attempt().await {
            Err(_) if started.elapsed() < limit => tokio::time::sleep(PAUSE).await,
            outcome => return outcome,
        }
    }
}
