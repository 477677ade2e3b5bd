//! A leading controller whose dispatcher is stuck, as in a system call.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_controller_whose_dispatcher_is_stuck_loses_the_own_lease_to_one_that_elects() {
    let server = server();
    let holder = || {
        let server = server.lock().unwrap();
        server.objects.get(OWN).and_then(|own| own["spec"]["holderIdentity"].as_str().map(str::to_owned))
    };
    let config = config_of("").unwrap();
    let (stuck, _, _) = surroundings(&server, "stuck", TokioClock::shared());
    let mut stuck = Box::pin(elect(&config, stuck, CancellationToken::new()));
    assert!(timeout(LONG, &mut stuck).await.is_err());
    assert_eq!(holder().as_deref(), Some("stuck"));

    // From here on, nothing polls the dispatcher. The tasks of the campaign and of the watches run on.
    let (next, _, _) = surroundings(&server, "next", TokioClock::shared());
    let mut next = Box::pin(elect(&config, next, CancellationToken::new()));
    assert!(timeout(LONG, &mut next).await.is_err());
    assert_eq!(holder().as_deref(), Some("next"));
    drop(stuck);
}
