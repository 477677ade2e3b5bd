//! Compares the problems of a Lease, and the reason why its holder leads, on the page and in the API.

use std::process::Command;

use hustings_client::api::LeaseCandidate;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use super::browser::{Browser, DESKTOP, with_browser};
use super::{Served, cell, row};
use crate::controller::peer::Peer;
use crate::controller::support::{World, binary, eventually};

/// The problems of the open Lease: class, severity in words, and text.
const PROBLEMS: &str = "[...document.querySelectorAll('#detail .problem')].map((problem) => \
     [problem.className, problem.querySelector('b').textContent, problem.querySelector('.name').textContent])";

#[tokio::test]
async fn the_page_shows_what_is_wrong_and_why_a_holder_leads_as_the_api_does() {
    let world = World::new("ui-problems").await;
    with_browser(&world.plane, DESKTOP, async |browser| {
        let served = Served::start(&world);
        let leader = Peer::start(&world, "work", "leader", "1.2.0").await;
        world.led_by("work", &leader.name).await;
        let _second = Peer::start(&world, "work", "second", "1.3.0").await;
        world.standing("second").await;
        // No process stands behind these two.
        for (name, lease, version) in [("silent", "work", "1.1.0"), ("alone", "zone", "1.2.0")] {
            world
                .stand(name, json!({ "leaseName": lease, "binaryVersion": version, "emulationVersion": version }))
                .await;
        }
        let [silent, alone] = [unresponsive(&world, "silent").await, unresponsive(&world, "alone").await];
        let unled = reported(&world, "zone", "NoLiveCandidate").await;

        served.open(browser, Some("zone")).await;
        let expected = json!([["problem critical", "Critical", unled], ["problem warning", "Warning", alone]]);
        shows(browser, "the problems of zone", PROBLEMS, &expected).await;
        shows(browser, "its row", &format!("{}?.className", row("zone")), &json!("critical")).await;
        shows(browser, "the worst problem in its row", &cell("zone", 4), &json!(unled)).await;
        // Only the severity puts it before the others.
        let first = "document.querySelector('#rows tr a bdi').textContent";
        shows(browser, "the critical Lease first", first, &json!("zone")).await;

        served.open(browser, Some("work")).await;
        shows(browser, "the problems of work", PROBLEMS, &json!([["problem warning", "Warning", silent]])).await;
        shows(browser, "its row", &format!("{}?.className", row("work")), &json!("warning")).await;
        shows(browser, "the count and the title", COUNTS, &json!(["2", "2", "1", "(2) Hustings"])).await;
        let why_not = silent.replacen("silent: ", "Why not silent? ", 1);
        let why = format!("{} {why_not}", place(&world, "work").await);
        assert!(why.starts_with("leader ranks 2nd of 3, behind silent: it emulates 1.2.0"), "{why}");
        shows(browser, "why the holder leads", WHY, &json!(why)).await;

        browser.run("window.kept = document.querySelector('#detail dl')").await;
        let candidates: Api<LeaseCandidate> = Api::namespaced(world.client.clone(), &world.namespace);
        candidates.delete("silent", &DeleteParams::default()).await.unwrap();
        shows(browser, "no problem", PROBLEMS, &json!([])).await;
        assert_eq!(browser.run("return window.kept.isConnected").await, true, "what has not changed stays");
        shows(browser, "its row", &format!("{}?.className", row("work")), &json!("ok")).await;
        shows(browser, "the count and the title", COUNTS, &json!(["2", "1", "1", "(1) Hustings"])).await;
        let why = place(&world, "work").await;
        assert!(why.starts_with("leader ranks 1st of 2, before second: it emulates 1.2.0"), "{why}");
        shows(browser, "why the holder leads", WHY, &json!(why)).await;
        // The text in a row can be selected, and a click on it opens the Lease.
        let at = "(({ left, top }) => document.elementFromPoint(left + 2, top + 2))(named.getBoundingClientRect())";
        let named = format!("const named = {}.children[1].querySelector('.name')", row("work"));
        assert_eq!(browser.run(&format!("{named}; return {at} === named")).await, true);
        browser.run("location.hash = ''").await;
        shows(browser, "only the list", "document.querySelector('#detail').hidden", &json!(true)).await;
        browser.run(&format!("{}.children[1].click()", row("work"))).await;
        shows(browser, "the Lease", "document.querySelector('#detail').hidden", &json!(false)).await;
        browser.run("document.querySelector('#filter input[value=wrong]').click()").await;
        let visible =
            "[...document.querySelectorAll('#rows tr:not([hidden]) a > bdi')].map((name) => name.textContent)";
        shows(browser, "only the Lease with a problem", visible, &json!(["zone"])).await;
    })
    .await;
}

/// The open Lease's sentence on its holder.
const WHY: &str = "document.querySelector('#detail .why').textContent";

/// How many Leases there are, how many have a problem, how many have no leader, and the title of the window.
const COUNTS: &str =
    "[...document.querySelectorAll('#filter b')].map((count) => count.textContent).concat(document.title)";

/// Waits until an expression in the page has this value.
async fn shows(browser: &Browser, what: &str, expression: &str, expected: &Value) {
    eventually(what, || async {
        let shown = browser.run(&format!("return {expression}")).await;
        if shown == *expected { Ok(()) } else { Err(format!("{shown} instead of {expected}")) }
    })
    .await;
}

/// The name and the message of a candidate whose status says that it does not answer.
async fn unresponsive(world: &World, name: &str) -> String {
    eventually(&format!("{name} is unresponsive"), || async {
        let status = world.candidate(name).await.ok_or("no candidate")?.record.status;
        let is_unresponsive = status.state.is_some_and(|state| state.as_str() == "Unresponsive");
        if is_unresponsive { Ok(format!("{name}: {}", status.message)) } else { Err("it is not") }
    })
    .await
}

/// The note of the event about this Lease with this reason.
async fn reported(world: &World, lease: &str, reason: &str) -> String {
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    eventually(&format!("the event {reason}"), || async {
        let is_it = |event: &Event| {
            let regarding = event.regarding.as_ref().and_then(|object| object.name.as_deref());
            regarding == Some(lease) && event.reason.as_deref() == Some(reason)
        };
        events.list(&ListParams::default()).await.unwrap().into_iter().find(is_it).ok_or("not yet")
    })
    .await
    .note
    .unwrap()
}

/// The place of the holder among its candidates, and the criterion that decides it: the last sentence of `hustings
/// explain` about the holder.
async fn place(world: &World, lease: &str) -> String {
    let mut command = Command::new(binary());
    command.args(["explain", lease, "--watch-for=0s", "--output=json", "--namespace", &world.namespace]);
    command.arg("--kubeconfig").arg(world.plane.kubeconfig());
    let output = tokio::process::Command::from(command).output().await.unwrap();
    let explained: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    explained["leader"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned()
}
