//! How tests wait: for a condition, never for a fixed time.

use std::time::{Duration, Instant};

/// How long a test waits for any condition. The machine may be slow, and be compiling at the same time.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(30);

/// Repeats `attempt` until it succeeds. Returns the last error if it still fails after [`PATIENCE`].
pub async fn eventually<T, E>(attempt: impl AsyncFnMut() -> Result<T, E>) -> Result<T, E> {
    within(PATIENCE, attempt).await
}

/// Like [`eventually`], but gives up after `limit`.
pub async fn within<T, E>(limit: Duration, mut attempt: impl AsyncFnMut() -> Result<T, E>) -> Result<T, E> {
    let started = Instant::now();
    loop {
        match attempt().await {
            Err(_) if started.elapsed() < limit => tokio::time::sleep(PAUSE).await,
            outcome => return outcome,
        }
    }
}
