//! An elector that dies while its work runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use hustings_core::model::{Moment, WireTime};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{A_MOMENT, GRACE, Stage, leads};
use crate::clock::Clock;
use crate::testing::TokioClock;
use crate::{CampaignError, Durations, Elector};

/// A clock whose wall clock, which only the elector reads, panics on demand.
struct Broken(Arc<dyn Clock>, AtomicBool);

impl Clock for Broken {
    fn now(&self) -> Moment {
        self.0.now()
    }

    fn wall(&self) -> WireTime {
        assert!(!self.1.load(Ordering::SeqCst), "on purpose");
        self.0.wall()
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        self.0.sleep_until(moment)
    }
}

#[tokio::test(start_paused = true)]
async fn work_has_its_whole_grace_although_its_elector_died() {
    let (stage, clock) = (Stage::new(), Arc::new(Broken(TokioClock::shared(), AtomicBool::new(false))));
    let timing = Durations { stop_grace: GRACE, ..Durations::default() };
    let builder = Elector::direct(&stage.store, "n", "l").identity("a").timing(timing);
    let elector = builder.clock(clock.clone()).build().unwrap();
    let leadership = elector.leadership();
    let (dropped, is_dropped) = oneshot::channel::<()>();
    let mut dropped = Some(dropped);
    let running = tokio::spawn(elector.run(move |term| {
        let dropped = dropped.take();
        async move {
            let _dropped = dropped;
            term.cancelled().await;
            std::future::pending::<()>().await;
        }
    }));
    leads(&leadership).await;
    clock.1.store(true, Ordering::SeqCst);
    leadership.ended().await;
    let ended = Instant::now();
    assert!(is_dropped.await.is_err());
    assert!((GRACE..GRACE + A_MOMENT).contains(&ended.elapsed()), "dropped after {:?}", ended.elapsed());
    assert!(matches!(running.await.unwrap(), Err(CampaignError::Died { .. })));
}
