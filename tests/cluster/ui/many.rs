//! Many Leases. The figures depend on the machine, so the test prints them and does not judge them.

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::browser::{DESKTOP, with_browser};
use super::{Served, foreign_lease};
use crate::controller::support::{AT_A_TIME, World};

#[tokio::test]
async fn a_thousand_leases_do_not_block_the_page() {
    const LEASES: usize = 1_000;
    const CHANGED: usize = 200;
    let world = World::new("ui-thousand").await;
    with_browser(&world.plane, DESKTOP, async |browser| {
        let served = Served::start(&world).await;
        let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
        let name = |number: usize| format!("lease-{number:04}");
        futures::stream::iter(0..LEASES)
            .for_each_concurrent(AT_A_TIME, |number| {
                let leases = &leases;
                async move {
                    let lease = foreign_lease(&name(number), "before");
                    drop(leases.create(&PostParams::default(), &lease).await.unwrap());
                }
            })
            .await;
        served.open(browser, None).await;
        browser.wait("all rows are there", &format!("document.querySelectorAll('#rows tr').length === {LEASES}")).await;
        let loading = browser.run(LONG_TASKS).await;
        // One change at a time stops the frames for less than it takes to notice.
        browser.run(COUNT_FRAMES).await;
        futures::stream::iter(0..CHANGED)
            .for_each_concurrent(AT_A_TIME, |number| {
                let (leases, name) = (&leases, name(number * 5));
                let patch = json!({ "spec": { "holderIdentity": "after", "leaseTransitions": 2 } });
                async move { drop(leases.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()) }
            })
            .await;
        let after = "[...document.querySelectorAll('#rows tr')]\
             .filter((row) => row.children[1].textContent.startsWith('after')).length";
        browser.wait("all changes are there", &format!("{after} === {CHANGED}")).await;
        let changing = browser.run("return window.frames_").await;
        let search = "const box = document.querySelector('#search'); const start = performance.now(); box.value = 'lease-0999'; \
             box.dispatchEvent(new Event('input')); document.body.offsetHeight; return performance.now() - start";
        let search = browser.run(search).await;
        println!("1,000 Leases: long tasks while loading {loading}; 200 changes {changing}; one search {search} ms");
        assert_eq!(browser.run("return document.querySelectorAll('#rows tr:not([hidden])').length").await, 1);
        assert!(changing["frames"].as_u64().unwrap() > 2, "the page draws while it changes: {changing}");
    })
    .await;
}

/// The tasks of more than 50 ms so far: how many, and the longest.
const LONG_TASKS: &str = "return (() => { const tasks = []; const observer = new PerformanceObserver(() => {}); \
     observer.observe({ type: 'longtask', buffered: true }); tasks.push(...observer.takeRecords()); \
     return { number: tasks.length, longestMs: Math.max(0, ...tasks.map((task) => task.duration)) }; })()";

/// Counts frames, and remembers the longest time between two.
const COUNT_FRAMES: &str = "window.frames_ = { frames: 0, longestMs: 0 }; let last = performance.now(); \
     const next = (at) => { const all = window.frames_; all.frames += 1; all.longestMs = Math.max(all.longestMs, at - last); \
     last = at; requestAnimationFrame(next); }; requestAnimationFrame(next)";
