//! Work that ends during its term.

use std::time::Duration;

use tokio::time::sleep;

use super::{A_MOMENT, Stage, leads, run};

#[tokio::test(start_paused = true)]
async fn functions_that_end_during_their_term_do_not_start_again_in_it() {
    let stage = Stage::new();
    let log = stage.log.clone();
    let (leadership, running) = run(stage.elector().function("short", move |_| {
        log.note("begins");
        sleep(A_MOMENT)
    }));
    leads(&leadership).await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(stage.log.take(), ["begins"]);
    stage.shutdown.cancel();
    running.await.unwrap().unwrap();

    // The same with the work of an elector.
    let (stage, log) = (Stage::new(), stage.log);
    let elector = stage.elector();
    let (leadership, notes) = (elector.leadership(), log.clone());
    let running = tokio::spawn(elector.run(move |_| {
        notes.note("begins");
        sleep(A_MOMENT)
    }));
    leads(&leadership).await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(log.take(), ["begins"]);
    stage.shutdown.cancel();
    running.await.unwrap().unwrap();
}
