use super::*;

/// The outcome of the default durations after `change`.
fn with(change: impl FnOnce(&mut Durations)) -> Result<Timing, Vec<InvalidTiming>> {
    let mut durations = Durations::default();
    change(&mut durations);
    Timing::new(durations)
}

fn with_deadline(millis: u64) -> Result<Timing, Vec<InvalidTiming>> {
    with(|durations| durations.renew_deadline = Duration::from_millis(millis))
}

#[test]
fn the_defaults_keep_every_rule() {
    assert_eq!(Timing::new(Durations::default()), Ok(Timing::default()));
}

#[test]
fn the_default_stop_grace_leaves_time_for_one_request_before_kubernetes_kills_the_pod() {
    // `terminationGracePeriodSeconds` of a pod that does not set it.
    let default_of_pods = Duration::from_secs(30);
    assert!(Timing::default().stop_grace() + Timing::default().request_timeout() <= default_of_pods);
}

#[test]
fn every_broken_rule_is_reported_at_once() {
    let zero = Durations {
        lease_duration_seconds: 0,
        renew_deadline: Duration::from_secs(1),
        retry_period: Duration::ZERO,
        jitter_percent: 0,
        request_timeout: Duration::ZERO,
        stop_grace: Duration::ZERO,
    };
    assert_eq!(
        Timing::new(zero),
        Err(vec![
            InvalidTiming::LeaseDurationZero,
            InvalidTiming::RetryPeriodZero,
            InvalidTiming::RequestTimeoutZero,
            InvalidTiming::StopGraceZero,
            InvalidTiming::RenewDeadlineTooLong { renew_deadline: zero.renew_deadline, most: Duration::ZERO },
        ])
    );
    let with_lease = |seconds| with(|durations| durations.lease_duration_seconds = seconds);
    assert_eq!(with_lease(3601), Err(vec![InvalidTiming::LeaseDurationTooLong { seconds: 3601 }]));
    assert_eq!(with_lease(3600).map(|timing| timing.lease_duration_seconds()), Ok(3600));
}

#[test]
fn the_renew_deadline_is_bounded_on_both_sides() {
    let broken = |millis| with_deadline(millis).map_err(|broken| broken[0].to_string()).map(|_| ());
    let too_short = "the renew deadline of 2.4s is not above 2.4s, which is the retry period with its jitter: \
                     raise it, or lower the retry period";
    assert_eq!(broken(2_400), Err(too_short.to_owned()));
    assert_eq!(broken(2_401), Ok(()));
    assert_eq!(broken(14_850), Ok(()));
    let too_long = "the renew deadline of 14.851s is above 14.85s, which is 0.99 of the lease duration: lower it, \
                    or raise the lease duration";
    assert_eq!(broken(14_851), Err(too_long.to_owned()));
}

#[test]
fn timings_of_client_go_and_istio_are_accepted_with_a_warning_if_one_lost_renewal_ends_the_term() {
    let with = |lease, deadline, retry| {
        let timing = with(|durations| {
            durations.lease_duration_seconds = lease;
            durations.renew_deadline = Duration::from_millis(deadline);
            durations.retry_period = Duration::from_millis(retry);
        });
        timing.unwrap()
    };
    let istio = with(30, 15_000, 7_500);
    let [warning] = istio.warnings()[..] else { panic!("{:?}", istio.warnings()) };
    let (renew_deadline, least) = (Duration::from_secs(15), Duration::from_secs(23));
    assert_eq!(warning, TimingWarning::OneLostRenewal { renew_deadline, least });
    assert_eq!(
        warning.to_string(),
        "one lost renewal may cost the term: the renew deadline of 15s is below 23s, which is two jittered retry \
         periods and a request timeout; raise it, or lower the retry period or the request timeout"
    );
    // Those of Kubernetes' components and controller-runtime, those of OpenShift, and longer ones like Istio's.
    for (timing, warns) in [((15, 10_000, 2_000), false), ((137, 107_000, 26_000), false), ((60, 30_000, 15_000), true)]
    {
        let (duration, deadline, retry) = timing;
        let timing = with(duration, deadline, retry);
        assert_eq!(timing.warnings().is_empty(), !warns, "{timing:?}");
    }
}

#[test]
fn a_deadline_close_to_the_lease_duration_causes_a_warning() {
    let with = |millis| with_deadline(millis).unwrap().warnings();
    assert_eq!(with(9_800), []);
    assert_eq!(with(12_000), []);
    let [warning] = with(12_001)[..] else { panic!("{:?}", with(12_001)) };
    assert!(warning.to_string().contains("the renew deadline of 12.001s is above 12s"), "{warning}");
}

#[test]
fn jitter_only_lengthens_and_never_overflows() {
    let timing = Timing::default();
    assert_eq!(timing.jittered(timing.retry_period(), Draw(0)), Duration::from_secs(2));
    assert_eq!(timing.jittered(timing.retry_period(), Draw(u32::MAX)), Duration::from_millis(2_400));
    let wild = Timing(Durations { jitter_percent: u32::MAX, ..Durations::default() });
    assert!(wild.jittered(Duration::MAX, Draw(u32::MAX)) >= Duration::from_secs(1));
}
