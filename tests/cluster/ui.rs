//! The page `/ui` in a real browser: whether it shows what the API shows, and what it keeps out.

mod browser;
mod connection;
mod hostile;
mod many;
mod problems;
mod screenshots;

use std::process::Command;

use hustings_client::api::{MicroTime, ReadLease};
use hustings_controlplane::{Process, free_port};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use self::browser::{Browser, DESKTOP, PHONE, Screen, with_browser};
use crate::controller::peer::Peer;
use crate::controller::support::{World, binary, eventually};

/// A controller that serves the page at a known address.
struct Served<'a> {
    world: &'a World,
    port: u16,
    process: Process,
}

impl<'a> Served<'a> {
    fn start(world: &'a World) -> Self {
        Self::start_at(world, free_port().unwrap())
    }

    fn start_at(world: &'a World, port: u16) -> Self {
        Self::start_with(world, port, &["--admin-address", &format!("127.0.0.1:{port}")])
    }

    /// A controller with these flags, one of which makes it listen on `port`.
    fn start_with(world: &'a World, port: u16, flags: &[&str]) -> Self {
        let mut command = Command::new(binary());
        command.args(["controller", "--log-format", "json"]).args(flags);
        command.args(["--watch-namespaces", &world.namespace, "--namespace", &world.namespace]);
        command.args(["--leader-elect-lease-duration", "3s", "--leader-elect-renew-deadline", "2s"]);
        command.args(["--leader-elect-retry-period", "500ms"]);
        command.arg("--kubeconfig").arg(world.plane.kubeconfig()).env_remove("POD_NAME");
        let process = world.plane.spawn(&format!("ui-controller-{port}"), command).unwrap();
        Self { world, port, process }
    }

    /// Waits until it listens.
    async fn listens(&self) {
        let connects = || async {
            tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.map_err(|error| error.to_string())
        };
        eventually("the controller listens", connects).await;
    }

    /// Opens the page, or one of its Leases.
    async fn open(&self, browser: &Browser, lease: Option<&str>) {
        let hash = lease.map(|lease| format!("#/{}/{lease}", self.world.namespace)).unwrap_or_default();
        self.listens().await;
        browser.open(&format!("http://127.0.0.1:{}/ui/{hash}", self.port)).await;
        browser.wait("the page is connected", "document.querySelector('#connection').dataset.state === 'live'").await;
    }
}

/// An expression for the row of a Lease.
fn row(lease: &str) -> String {
    format!(
        "[...document.querySelectorAll('#rows tr')].find((row) => row.querySelector('a bdi').textContent === '{lease}')"
    )
}

/// An expression for the text of a cell in the row of a Lease, from 0.
fn cell(lease: &str, column: usize) -> String {
    format!("{}?.children[{column}].textContent.trim()", row(lease))
}

#[tokio::test]
async fn the_page_shows_what_the_api_shows_and_follows_a_hand_over() {
    let world = World::new("ui-live").await;
    with_browser(&world.plane, DESKTOP, async |browser| {
        let served = Served::start(&world);
        let first = Peer::start(&world, "work", "first", "1.2.0").await;
        let second = Peer::start(&world, "work", "second", "1.2.0").await;
        let leads = |lease: &ReadLease| lease.record.holder.is_some() && !lease.record.is_open();
        let lease =
            eventually("one of them leads", || async { world.lease("work").await.filter(leads).ok_or("none") }).await;
        let leader = lease.record.holder.clone().unwrap();
        let other = if leader == first.name { &second.name } else { &first.name };
        served.open(browser, Some("work")).await;
        browser.run("window.loaded = true").await;
        browser.wait("the list names the leader", &format!("{} === '{leader}'", cell("work", 1))).await;
        browser.wait("the list names the next in line", &format!("{}?.startsWith('{other}')", cell("work", 3))).await;
        // Each candidate has the state and the reason that its status has.
        for name in [&leader, other] {
            let recorded = || async { world.candidate(name).await.map(|candidate| candidate.record.status) };
            let status = eventually("it has a status", || async {
                recorded().await.filter(|status| status.state.is_some()).ok_or("none")
            })
            .await;
            let row = format!(
                "[...document.querySelectorAll('.candidates tbody tr')]\
                 .find((row) => row.children[1].textContent === '{name}')?.textContent ?? ''"
            );
            browser.wait("the state", &format!("({row}).includes('{}')", status.state.unwrap().as_str())).await;
            browser.wait("the reason", &format!("({row}).includes({})", json!(status.message))).await;
        }
        let acquired = json!(MicroTime(lease.record.acquire_time.unwrap()));
        browser.wait("since when", &format!("document.querySelector('.statement time').dateTime === {acquired}")).await;

        let better = Peer::start(&world, "work", "better", "1.1.0").await;
        world.led_by("work", &better.name).await;
        browser.wait("the new leader, live", &format!("{} === 'better'", cell("work", 1))).await;
        browser.wait("the statement", "document.querySelector('.statement strong').textContent === 'better'").await;
        let timeline = "[...document.querySelectorAll('.timeline tbody tr')].map((row) => row.children[0].textContent)";
        let expected = json!(["better term 2", "no leader: the holder handed over", format!("{leader} term 1")]);
        let same = format!("JSON.stringify({timeline}.slice(0, 3)) === JSON.stringify({expected})");
        browser.wait("the timeline", &same).await;
        assert_eq!(browser.run("return window.loaded").await, true, "it was not loaded again");
        let roles = "[...document.querySelectorAll('table')].every((table) => table.getAttribute('role') === 'table' \
             && (table.hasAttribute('aria-label') || table.hasAttribute('aria-labelledby')))";
        assert_eq!(browser.run(&format!("return {roles}")).await, true);
        browser.wait("the news", "document.querySelector('#announcer').textContent === 'better leads work'").await;
    })
    .await;
}

#[tokio::test]
async fn the_page_says_that_it_is_disconnected_and_reconnects_after_a_restart() {
    let world = World::new("ui-restart").await;
    with_browser(&world.plane, DESKTOP, async |browser| {
        let served = Served::start(&world);
        let peer = Peer::start(&world, "work", "a", "1.2.0").await;
        world.led_by("work", &peer.name).await;
        served.open(browser, None).await;
        browser.run("window.loaded = true").await;
        browser.wait("the leader", &format!("{} === 'a'", cell("work", 1))).await;

        let port = served.port;
        served.process.kill().unwrap();
        browser
            .wait("it is disconnected", "document.querySelector('#connection').textContent === 'Disconnected'")
            .await;
        browser.wait("it says so", "document.querySelector('#stale').innerText.includes('last known state')").await;
        assert_eq!(browser.run(&format!("return {}", cell("work", 1))).await, "a", "the last known state stays");
        let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
        leases.create(&PostParams::default(), &foreign_lease("unseen", "x")).await.unwrap();

        let _restarted = Served::start_at(&world, port);
        browser
            .wait("it is connected again", "document.querySelector('#connection').textContent === 'Connected'")
            .await;
        browser.wait("it shows what it has missed", &format!("{} === 'x foreign leader'", cell("unseen", 1))).await;
        browser.wait("the leader is still there", &format!("{} === 'a'", cell("work", 1))).await;
        assert_eq!(
            browser.run("return [window.loaded, document.querySelector('#stale').hidden]").await,
            json!([true, true])
        );
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_a_standby_has_not_read_is_unknown_and_not_vacant() {
    let world = World::new("ui-unread").await;
    with_browser(&world.plane, DESKTOP, async |browser| {
        let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
        for (name, holder) in [("hustings-controller", "another"), ("work", "x")] {
            leases.create(&PostParams::default(), &foreign_lease(name, holder)).await.unwrap();
        }
        let spec = json!({ "leaseName": "work", "binaryVersion": "1.2.0", "emulationVersion": "1.2.0" });
        world.stand("a", spec).await;
        let served = Served::start(&world);
        served.open(browser, Some("work")).await;
        browser.wait("the holder", &format!("{} === 'x foreign leader'", cell("work", 1))).await;
        leases.delete("work", &DeleteParams::default()).await.unwrap();
        browser.wait("it is unknown", &format!("{} === 'unknown'", cell("work", 1))).await;
        let row = format!("[{}, {}]", cell("work", 2), cell("work", 3));
        assert_eq!(browser.run(&format!("return {row}")).await, json!(["–", "unknown"]));
        let statement = "document.querySelector('.statement').textContent.startsWith('Unknown: ')";
        browser.wait("the statement", statement).await;
        let announced = "document.querySelector('#announcer').textContent === 'It is unknown who leads work'";
        browser.wait("it is announced", announced).await;
    })
    .await;
}

#[tokio::test]
async fn the_keyboard_is_enough() {
    let world = World::new("ui-keyboard").await;
    with_browser(&world.plane, DESKTOP, async |browser| {
        let served = Served::start(&world);
        let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
        for name in ["alpha", "beta", "gamma"] {
            leases.create(&PostParams::default(), &foreign_lease(name, &format!("holder-of-{name}"))).await.unwrap();
        }
        served.open(browser, None).await;
        browser.wait("all rows", "document.querySelectorAll('#rows tr').length === 3").await;
        let focus = |what: &str| format!("document.activeElement.textContent.startsWith('{what}')");
        browser.press(&["/"]).await;
        browser.wait("the search has the focus", "document.activeElement.id === 'search'").await;
        browser.press(&["b", "e", "t", "a"]).await;
        browser.wait("only one row is left", "document.querySelectorAll('#rows tr:not([hidden])').length === 1").await;
        browser.press(&["\u{e00c}"]).await;
        browser
            .wait("Escape clears the search", "document.querySelectorAll('#rows tr:not([hidden])').length === 3")
            .await;
        browser.press(&["\u{e015}", "\u{e015}"]).await;
        browser.wait("the arrows move", &focus("beta")).await;
        let outline = "getComputedStyle(document.activeElement, '::after').outlineStyle";
        assert_eq!(browser.run(&format!("return {outline}")).await, "solid", "the focus is visible");
        browser.press(&["\u{e007}"]).await;
        browser
            .wait(
                "Enter opens",
                "!document.querySelector('#detail').hidden && document.activeElement.id === 'detail-title'",
            )
            .await;
        browser.wait("the Lease", &focus("beta")).await;
        browser.press(&["\u{e00c}"]).await;
        browser.wait("Escape closes", "document.querySelector('#detail').hidden").await;
        browser.wait("the focus is where it was", &focus("beta")).await;
        browser.press(&["\u{e004}"]).await;
        browser.wait("Tab goes on to the next Lease", &focus("gamma")).await;
    })
    .await;
}

#[tokio::test]
async fn the_page_fits_a_phone_and_is_dark_in_the_dark() {
    let world = World::new("ui-phone").await;
    let long = "x".repeat(200);
    for screen in [PHONE, Screen { dark: false, ..PHONE }] {
        with_browser(&world.plane, screen, async |browser| {
            let served = Served::start(&world);
            let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
            let lease = serde_json::to_value(foreign_lease(&long, &long)).unwrap();
            leases.patch(&long, &PatchParams::apply("test").force(), &Patch::Apply(lease)).await.unwrap();
            served.open(browser, None).await;
            browser.wait("it is shown", "document.querySelectorAll('#rows tr').length > 0").await;
            let cells = "[...document.querySelectorAll('#rows td')]";
            let labelled = format!("{cells}.every((cell) => getComputedStyle(cell, '::before').content !== 'none')");
            assert_eq!(browser.run(&format!("return {labelled}")).await, true, "every cell names itself");
            for open in [None, Some(long.as_str())] {
                served.open(browser, open).await;
                browser.wait("it is shown", "document.querySelectorAll('#rows tr').length > 0").await;
                let widths = browser.run("return [document.documentElement.scrollWidth, innerWidth]").await;
                assert_eq!(widths, json!([PHONE.width, PHONE.width]), "nothing is wider than the screen");
            }
            let lightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g)\
                 .reduce((sum, part) => sum + Number(part), 0)";
            let lightness = browser.run(&format!("return {lightness}")).await.as_f64().unwrap();
            assert_eq!(lightness < 150.0, screen.dark, "{lightness}");
        })
        .await;
    }
}

/// A Lease that a process without a candidate holds for an hour.
fn foreign_lease(name: &str, holder: &str) -> Lease {
    serde_json::from_value(json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": name, "labels": { "hustings.io/enrolled": "true" } },
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 3600, "leaseTransitions": 1,
            "acquireTime": "2026-01-02T03:00:00.000000Z", "renewTime": "2026-01-02T03:00:00.000000Z",
        },
    }))
    .unwrap()
}
