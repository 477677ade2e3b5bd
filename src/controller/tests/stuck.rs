//! A leading controller that elects nobody: its dispatcher is stuck, as in a system call, or it gets no lists.

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

#[tokio::test(start_paused = true)]
async fn a_controller_that_gets_no_lists_leaves_the_own_lease_to_another_one() {
    let server = server();
    server.lock().unwrap().forbidden = Some("/apis/hustings.io/");
    let first = start(Arc::clone(&server), "", TokioClock::shared());
    first.wait_for_holder(OWN, "hustings-0").await;
    let (next, _, _) = surroundings(&server, "next", TokioClock::shared());
    let config = config_of("").unwrap();
    tokio::spawn(async move { elect(&config, next, CancellationToken::new()).await });
    sleep(LONG / 2).await;
    assert_eq!(first.holder_of(OWN).as_deref(), Some("hustings-0"), "a list may take long");
    first.wait_for_holder(OWN, "next").await;
    assert_eq!(first.holder_of(WEB), None);
    server.lock().unwrap().forbidden = None;
    first.wait_for_holder(WEB, "a").await;
}
