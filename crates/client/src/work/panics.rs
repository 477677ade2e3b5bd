//! Panics in a process that holds Leases.
//!
//! Where panics unwind, [`Elector::run`](crate::Elector::run) and [`Functions::run`](crate::Functions::run) catch the
//! panics of the work. Where panics abort the process, only the panic hook still runs, on the thread that panicked. The
//! rule that must hold: the hook blocks that thread, so its work does nothing more, and all other work stops before the
//! release.

use std::cell::Cell;
use std::panic;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hustings_core::model::Cause;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::sync::CancellationToken;

use crate::leadership::{Leadership, Work};

/// How often the hook checks whether the electors have ended.
const CHECK_PERIOD: Duration = Duration::from_millis(1);

tokio::task_local! {
    /// The work of the current task, until a panic ends it.
    static WORK: Cell<Option<Work>>;
}

/// Makes every panic release the Leases of these electors, for programs that abort on a panic (`panic = "abort"`).
///
/// Call this once, before the electors start, with the token given to
/// [`ElectorBuilder::shutdown`](crate::ElectorBuilder::shutdown). On a panic, the hook runs the former hook and cancels
/// the token. It then blocks the panicking thread until all electors have ended, but at most for `limit`. The electors
/// stop all other work first, as at a shutdown. If that takes longer than `limit`, the process aborts before the
/// release, and the Lease expires.
///
/// The electors need another thread for that. On a current-thread runtime the hook does not wait, and in a
/// [`LocalSet`](tokio::task::LocalSet) the process aborts at once. The Lease then expires.
///
/// The hook does not know whether the program catches the panic. Where panics unwind, a function that panics would end
/// the whole election, so install the hook only where panics abort:
///
/// ```
/// # use std::time::Duration;
/// # use hustings_client::{Elector, release_on_panic, testing::MemoryStore};
/// # let shutdown = tokio_util::sync::CancellationToken::new();
/// # let elector = Elector::direct(&MemoryStore::new(), "n", "l").identity("a").shutdown(&shutdown).build()?;
/// if cfg!(panic = "abort") {
///     release_on_panic(&shutdown, [elector.leadership()], Duration::from_secs(2));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn release_on_panic(shutdown: &CancellationToken, electors: impl IntoIterator<Item = Leadership>, limit: Duration) {
    let (shutdown, electors) = (shutdown.clone(), Vec::from_iter(electors));
    let former = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        former(panic);
        release(&shutdown, &electors, limit);
    }));
}

/// Stops the electors on the thread that panicked.
fn release(shutdown: &CancellationToken, electors: &[Leadership], limit: Duration) {
    for elector in electors {
        elector.set_stop_cause(Cause::Panicked);
    }
    shutdown.cancel();
    // This thread does not return to the work.
    let _ = WORK.try_with(Cell::take);
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::CurrentThread) => {}
        // Other threads take over the tasks that wait for this one.
        Ok(_) => tokio::task::block_in_place(|| wait(electors, limit)),
        Err(_) => wait(electors, limit),
    }
}

/// Runs `future` as this work: a panic in it ends the work.
pub(crate) async fn as_work<F: Future>(work: Work, future: F) -> F::Output {
    WORK.scope(Cell::new(Some(work)), future).await
}

/// Waits until all electors have ended, but at most for `limit`.
fn wait(electors: &[Leadership], limit: Duration) {
    let began = Instant::now();
    while began.elapsed() < limit && !electors.iter().all(Leadership::has_ended) {
        sleep(CHECK_PERIOD);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use hustings_core::elector::Timing;
    use hustings_core::model::Ending;

    use super::*;
    use crate::Elector;
    use crate::leadership::leadership;
    use crate::testing::{HandClock, MemoryStore};

    #[test]
    fn the_hook_waits_for_its_electors_and_at_most_for_its_limit() {
        let clock = HandClock::at_seconds(0);
        let (publisher, leadership) = leadership(clock, "n/l".to_owned(), "a".to_owned(), Timing::default());
        let waited = |limit| {
            let (done, waited) = mpsc::channel();
            let electors = [leadership.clone()];
            std::thread::spawn(move || {
                wait(&electors, limit);
                done.send(())
            });
            waited.recv_timeout(Duration::from_mins(1))
        };
        assert!(waited(Duration::from_millis(20)).is_ok(), "the elector never ends");
        drop(publisher);
        assert!(waited(Duration::from_hours(1)).is_ok(), "the elector has ended");
    }

    #[test]
    fn the_hook_waits_for_the_last_of_its_electors() {
        let elector = || leadership(HandClock::at_seconds(0), "n/l".to_owned(), "a".to_owned(), Timing::default());
        let ((running, first), (ended, second)) = (elector(), elector());
        drop(ended);
        let (began, limit) = (Instant::now(), Duration::from_millis(20));
        wait(&[first, second], limit);
        assert!(began.elapsed() >= limit);
        drop(running);
    }

    #[test]
    fn the_hook_calls_the_former_hook_and_cancels_the_shutdown() {
        let (called, calls) = mpsc::channel();
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let _ = called.send(());
            former(panic);
        }));
        let shutdown = CancellationToken::new();
        release_on_panic(&shutdown, [], Duration::ZERO);
        std::thread::spawn(|| panic!("on purpose")).join().unwrap_err();
        assert!(calls.try_recv().is_ok() && shutdown.is_cancelled());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_ends_the_work_and_releases_the_lease_with_its_cause() {
        let (store, shutdown) = (MemoryStore::new(), CancellationToken::new());
        let elector = Elector::direct(&store, "n", "l").identity("a").shutdown(&shutdown).build().unwrap();
        let campaign = elector.start();
        let leadership = campaign.leadership();
        let work = leadership.wait_until_leader().await.unwrap().begin_work().unwrap();
        let ended = as_work(work, async {
            release(&shutdown, std::slice::from_ref(&leadership), Duration::from_mins(1));
            leadership.has_ended()
        });
        assert!(ended.await, "the work does not keep the elector from its end");
        let ending = store.lease("n", "l").unwrap().history.terms().next().map(|term| term.ending);
        assert_eq!(ending, Some(Ending::Released(Cause::Panicked)));
    }
}
