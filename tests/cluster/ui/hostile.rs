//! Hostile names and annotations.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::browser::{DESKTOP, with_browser};
use super::{Served, cell, foreign_lease};
use crate::controller::support::World;

/// Each sets `window.breached` if it is read as markup or as a script.
const PAYLOADS: [&str; 4] = [
    "<img src=x onerror=window.breached=1>",
    "</bdi><script>window.breached=1</script>",
    "<details open ontoggle=window.breached=1>",
    "\"><iframe srcdoc='<script>parent.breached=1</script>'></iframe>",
];

/// The annotations whose texts the controller or the page reads.
const ANNOTATIONS: [&str; 9] =
    ["hold", "pin", "hold-until", "transfer", "asked-by", "strategy", "preferred-holder", "reason", "history"];

#[tokio::test]
async fn no_name_and_no_annotation_is_ever_read_as_markup() {
    let world = World::new("ui-hostile").await;
    with_browser(&world.plane, DESKTOP, async |browser| {
        // The payloads do work where a page reads them as markup.
        browser.open("data:text/html,<body></body>").await;
        for payload in PAYLOADS.into_iter().filter(|payload| !payload.contains("<script>")) {
            browser.run(&format!("delete window.breached; document.body.innerHTML = {}", json!(payload))).await;
            browser.wait("the payload works", "window.breached === 1").await;
        }
        let served = Served::start(&world);
        let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
        for (number, payload) in PAYLOADS.into_iter().enumerate() {
            let mut lease = foreign_lease(&format!("hostile-{number}"), payload);
            let annotated = ANNOTATIONS.map(|name| (format!("hustings.io/{name}"), payload.to_owned()));
            lease.metadata.annotations = Some(annotated.into());
            leases.create(&PostParams::default(), &lease).await.unwrap();
        }
        let exclude = format!("2099-01-01T00:00:00Z: {}", PAYLOADS[0]);
        let candidate = json!({
            "metadata": { "name": "excluded", "annotations": { "hustings.io/exclude": exclude } },
            "spec": { "leaseName": "hostile-0", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" },
        });
        world.create(candidate).await;
        for (number, payload) in PAYLOADS.into_iter().enumerate() {
            let name = format!("hostile-{number}");
            served.open(browser, Some(&name)).await;
            let row = json!(format!("{payload} foreign leader"));
            browser.wait("the row has the text as it is", &format!("{} === {row}", cell(&name, 1))).await;
            let statement = "document.querySelector('.statement strong').textContent";
            browser.wait("so has the detail", &format!("{statement} === {}", json!(payload))).await;
            let texts = format!("document.querySelector('#detail').textContent.split({}).length", json!(payload));
            browser.wait("the acts, too", &format!("{texts} > 4")).await;
            let elements =
                "document.querySelectorAll('img, iframe, object, body script, body style, #rows svg').length";
            assert_eq!(browser.run(&format!("return [window.breached ?? null, {elements}]")).await, json!([null, 0]));
        }
        // Even a mistake in the page's own script could make neither markup nor a handler of a text.
        for sink in ["body.innerHTML = '<img>'", "body.setAttribute('onclick', 'window.breached = 1')"] {
            let attempt = format!("try {{ document.{sink}; return 'done'; }} catch (error) {{ return error.name; }}");
            assert_eq!(browser.run(&attempt).await, "TypeError", "{sink}");
        }
    })
    .await;
}
