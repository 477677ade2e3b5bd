//! The page's connection: a page that gets none, and pages in the background.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::browser::{DESKTOP, with_browser};
use super::{Served, cell};
use crate::controller::support::{World, eventually};

/// The most pages that a controller serves at a time.
const MOST_PAGES: usize = 32;

/// More tabs than a browser opens connections to one host.
const MANY_TABS: usize = 7;

/// The page's minute in the background takes a second.
const SHORT_MINUTE: &str = "const [began, now, later] = [Date.now(), Date.now, setTimeout]; \
     Date.now = () => began + 60 * (now() - began); \
     window.setTimeout = (then, time) => later(then, time === 60000 ? 1000 : time)";

#[tokio::test]
async fn a_page_that_gets_no_connection_says_that_too_many_may_be_open() {
    let world = World::new("ui-full").await;
    with_browser(&world.plane, DESKTOP, async |browser| {
        let served = Served::start(&world);
        served.listens().await;
        let mut pages = Vec::new();
        for _ in 0..MOST_PAGES {
            let mut page = TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
            page.write_all(b"GET /ui/events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            let mut answer = [0; 15];
            page.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200 OK");
            pages.push(page);
        }
        browser.open(&format!("http://127.0.0.1:{}/ui/", served.port)).await;
        browser
            .wait("it says so", "document.querySelector('#stale').innerText.includes('too many of its pages')")
            .await;
        let shown = browser.run("return [document.querySelector('#connection').textContent, document.title]").await;
        assert_eq!(shown, json!(["Not connected", "(?) Hustings"]));
        drop(pages);
        browser.wait("it is connected", "document.querySelector('#connection').textContent === 'Connected'").await;
        browser.wait("it knows the count", "document.title === 'Hustings'").await;
    })
    .await;
}

#[tokio::test]
async fn pages_in_the_background_hold_no_connection_and_their_titles_stay_true() {
    let world = World::new("ui-background").await;
    with_browser(&world.plane, DESKTOP, async |browser| {
        let served = Served::start(&world);
        served.open(browser, None).await;
        browser.run(SHORT_MINUTE).await;
        let first = browser.tab().await;
        for _ in 1..MANY_TABS {
            browser.open_tab().await;
            served.open(browser, None).await;
            browser.run(SHORT_MINUTE).await;
        }
        // No process stands behind it.
        let spec = json!({ "leaseName": "zone", "binaryVersion": "1.2.0", "emulationVersion": "1.2.0" });
        world.stand("alone", spec).await;
        eventually("each title has the problem", || async {
            let titles = browser.titles().await;
            if titles == vec!["(1) Hustings"; MANY_TABS] { Ok(()) } else { Err(titles) }
        })
        .await;
        browser.show_tab(&first).await;
        browser.wait("the row is there", &format!("{} === 'nobody no leader'", cell("zone", 1))).await;
        browser.wait("it is connected again", "document.querySelector('#stale').hidden").await;
    })
    .await;
}
