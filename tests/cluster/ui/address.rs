//! On which addresses the page is served.

use super::Served;
use super::browser::free_port;
use crate::controller::support::World;
use crate::http::ask;

/// Each path of the page.
const PATHS: [&str; 6] = ["/ui", "/ui/", "/ui/page.css", "/ui/page.js", "/ui/lease.js", "/ui/events"];

#[tokio::test]
async fn on_an_address_that_others_reach_the_page_is_off_unless_a_flag_switches_it_on() {
    let world = World::new("ui-address").await;
    // The chart uses the second form.
    for host in ["0.0.0.0", ""] {
        let port = free_port().await;
        let served = Served::start_with(&world, port, &["--admin-address", &format!("{host}:{port}")]);
        served.listens().await;
        let address = ([127, 0, 0, 1], port).into();
        assert_eq!(ask(address, "GET", "/livez").await.code, 200, "the admin server answers");
        for path in PATHS {
            assert_eq!(ask(address, "GET", path).await.code, 404, "{path} on {host:?}");
        }
    }

    let port = free_port().await;
    let served = Served::start_with(&world, port, &["--admin-address", &format!("0.0.0.0:{port}"), "--ui"]);
    served.listens().await;
    let address = ([127, 0, 0, 1], port).into();
    let page = ask(address, "GET", "/ui/").await;
    assert!(page.code == 200 && page.body.contains("<title>Hustings</title>"), "{page:?}");
}

#[tokio::test]
async fn on_a_loopback_address_the_page_is_on_unless_a_flag_switches_it_off() {
    let world = World::new("ui-loopback").await;
    for (flag, code) in [(None, 200), (Some("--ui=false"), 404)] {
        let port = free_port().await;
        let address = format!("127.0.0.1:{port}");
        let flags: Vec<_> = ["--admin-address", &address].into_iter().chain(flag).collect();
        let served = Served::start_with(&world, port, &flags);
        served.listens().await;
        assert_eq!(ask(address.parse().unwrap(), "GET", "/ui/").await.code, code, "with {flag:?}");
    }
}
