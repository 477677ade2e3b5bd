//! What the policy accepts, and how long after a take-up it still treats the former term as the newest.

use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, PatchParams};
use tokio::sync::Semaphore;

use super::stage::{NAME, Stage, dry_run, fenced, patch, refusal};
use crate::replica::until;

const SESSION: &str = "pod.container.net.random/1/15";

#[tokio::test]
async fn only_the_holder_writes_and_only_under_its_own_term() {
    let stage = Stage::new().await;
    let params = PatchParams::default();
    let (first, second, account) = (stage.pod("first").await, stage.pod("second").await, stage.account().await);
    let write = async |by: &Api<ConfigMap>, mark: Option<&str>| by.patch(NAME, &params, &patch(mark, "x")).await;
    let mark = |token| stage.mark(token);
    let says = |message: String, part: &str| assert!(message.contains(part), "{message}");

    // Without a Lease nothing may write, and nothing is exempt; but deletions pass.
    refusal(write(&first, Some(&mark(7))).await);
    refusal(write(&stage.admin(), None).await);
    let delete = DeleteParams::default().dry_run();
    stage.admin().delete(NAME, &delete).await.unwrap();

    stage.lease("first", SESSION, 7).await;
    seen(&stage, &first, 7).await;
    write(&stage.admin(), None).await.unwrap();
    stage.admin().delete(NAME, &delete).await.unwrap();
    write(&first, Some(&mark(7))).await.unwrap();
    write(&account, Some(&mark(7))).await.unwrap();
    says(refusal(write(&first, Some(&mark(6))).await), "but the newest of Lease");
    says(refusal(write(&second, Some(&mark(7))).await), r#"pod "second" does not hold"#);
    // Only the pod distinguishes this writer from the last one.
    says(refusal(write(&second, None).await), r#"pod "second" does not hold"#);
    // The server may not have observed a recent take-up.
    write(&second, Some(&mark(8))).await.unwrap();
    write(&first, Some(&mark(7))).await.unwrap();

    // An unreadable mark belongs to no term.
    for mark in ["", "7", "other/my-component/7", "/my-component/7", &mark(7).replace(NAME, "other")] {
        refusal(write(&first, Some(mark)).await);
    }
    for token in ["", "x", "-7", "+8", "8 ", "8/8", "99999999999999999999999"] {
        refusal(write(&first, Some(&format!("{}/{NAME}/{token}", stage.namespace))).await);
    }
    refusal(first.create(&dry_run(), &fenced("new", None)).await);
    first.create(&dry_run(), &fenced("new", Some(&mark(7)))).await.unwrap();

    // A deletion carries no mark: only the pod counts.
    says(refusal(second.delete(NAME, &delete).await), r#"pod "second" does not hold"#);
    refusal(account.delete(NAME, &delete).await);
    first.delete(NAME, &delete).await.unwrap();

    // A term that was given up is over, also before the next take-up.
    stage.lease("second", "open", 7).await;
    until("the policy sees the grant", String::new, async || write(&first, Some(&mark(7))).await.err().map(|_| ()))
        .await;
    says(refusal(write(&first, Some(&mark(7))).await), "which is over");
    refusal(write(&second, Some(&mark(7))).await);
    refusal(second.delete(NAME, &delete).await);

    // For any content of the Lease the policy gives an answer.
    for token in ["", "x", "-1", "0", "99999999999999999999999"] {
        stage.lease("first", SESSION, 8).await;
        let passes = async || write(&first, Some(&mark(9))).await.ok();
        until("a higher token passes", String::new, passes).await;
        let leases =
            Api::<k8s_openapi::api::coordination::v1::Lease>::namespaced(stage.plane.admin(), &stage.namespace);
        let lease = serde_json::json!({"metadata": {"annotations": {"hustings.io/token": token}}});
        leases.patch(NAME, &params, &kube::api::Patch::Merge(lease)).await.unwrap();
        let refused = async || write(&first, Some(&mark(9))).await.err();
        until(&format!("token {token:?} counts as none"), String::new, refused).await;
        says(refusal(write(&first, Some(&mark(9))).await), "is 0");
    }
}

#[tokio::test]
async fn an_older_term_is_rejected_soon_after_the_take_up() {
    const ROUNDS: u64 = 30;
    const WRITERS: u32 = 8;
    let stage = Stage::new().await;
    let account = stage.account().await;
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    stage.lease("first", SESSION, 1).await;
    let (mut begun, mut answered) = (Vec::new(), Vec::new());
    for token in 1..=ROUNDS {
        seen(&stage, &account, token).await;
        let (mark, params) = (stage.mark(token), &params);
        let busy = Semaphore::new(0);
        // Several writers at once, so that writes begin close together. Each returns when its last accepted write began, and
        // when the answer arrived.
        let writers = (0..WRITERS).map(|_| async {
            let mut last = None;
            loop {
                let sent = Instant::now();
                match account.patch(NAME, params, &patch(Some(&mark), "x")).await {
                    Ok(_) if last.replace((sent, Instant::now())).is_none() => busy.add_permits(1),
                    Ok(_) => {}
                    refused => {
                        refusal(refused);
                        return last.unwrap();
                    }
                }
            }
        });
        let take_up = async {
            drop(busy.acquire_many(WRITERS).await.unwrap());
            stage.lease("second", SESSION, token + 1).await;
            Instant::now()
        };
        let (last, succeeded) = futures::join!(join_all(writers), take_up);
        let longest = |times: &mut dyn Iterator<Item = Instant>| {
            times.map(|time| time.saturating_duration_since(succeeded)).max().unwrap()
        };
        begun.push(longest(&mut last.iter().map(|(sent, _)| *sent)));
        answered.push(longest(&mut last.iter().map(|(_, answered)| *answered)));
    }
    for (what, mut windows) in [("began", begun), ("was answered", answered)] {
        windows.sort_unstable();
        let [middle, last] = [windows.len() / 2, windows.len() - 1].map(|index| windows[index]);
        println!(
            "the last write of the former term that passed {what} after the answer to the take-up: \
             median {middle:.1?}, longest of {ROUNDS} {last:.1?}"
        );
        assert!(last < Duration::from_secs(30), "{what}: {windows:?}");
    }
}

/// Waits until the policy knows this as the newest term.
async fn seen(stage: &Stage, by: &Api<ConfigMap>, token: u64) {
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let (older, newest) = (patch(Some(&stage.mark(token - 1)), "x"), patch(Some(&stage.mark(token)), "x"));
    let seen = async || {
        let is_newest =
            by.patch(NAME, &params, &older).await.is_err() && by.patch(NAME, &params, &newest).await.is_ok();
        is_newest.then_some(())
    };
    until(&format!("the policy sees token {token}"), String::new, seen).await;
}
