//! Tests over real sockets. Each machine has an address of its own, and all servers listen on the same port.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::future::pending;

use super::*;

/// The limit for a connection that must succeed: the timeout of a request.
const LIMIT: Duration = Duration::from_secs(5);

/// A limit that is shorter than the wait for one address.
const SHORT: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Machine {
    /// It accepts connections.
    Works,
    /// It refuses connections.
    Refuses,
    /// It answers nothing.
    Dead,
}
use Machine::{Dead, Refuses, Works};

/// The machines behind one name. The name has the addresses of all of them, in their order.
struct Network {
    server: Uri,
    machines: HashMap<IpAddr, Machine>,
    answer: Arc<Mutex<Vec<IpAddr>>>,
    lookups: Arc<AtomicUsize>,
    /// Whether lookups get no answer.
    is_silent: Arc<AtomicBool>,
    connector: AddressConnector,
    _open: Vec<(StdListener, Vec<StdStream>)>,
}

fn v4(last: u8) -> IpAddr {
    [127, 0, 0, last].into()
}

const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

impl Network {
    fn new(machines: &[(IpAddr, Machine)]) -> Self {
        let mut port = 0;
        let mut open = Vec::new();
        for &(address, machine) in machines.iter().filter(|(_, machine)| *machine != Refuses) {
            let listener = StdListener::bind((address, port)).unwrap();
            port = listener.local_addr().unwrap().port();
            let fill = if machine == Dead { fill(&listener) } else { Vec::new() };
            open.push((listener, fill));
        }
        let answer = Arc::new(Mutex::new(machines.iter().map(|(address, _)| *address).collect()));
        let (lookups, is_silent) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let resolver = resolver(&answer, &lookups, &is_silent);
        let connector = AddressConnector { resolver, addresses: Arc::default() };
        let server = format!("http://api.example:{port}").parse().unwrap();
        Self {
            server,
            machines: machines.iter().copied().collect(),
            answer,
            lookups,
            is_silent,
            connector,
            _open: open,
        }
    }

    /// Returns the address of the machine to which one connection leads.
    async fn reach(&self, limit: Duration) -> Option<IpAddr> {
        let connected = timeout(limit, self.connector.clone().call(self.server.clone())).await.ok()?;
        let address = connected.unwrap().inner().peer_addr().unwrap().ip();
        assert_eq!(self.machines[&address], Works);
        Some(address)
    }

    /// Whether one of five connections succeeds within the limit: a busy machine delays some.
    async fn reaches_soon(&self, limit: Duration) -> bool {
        for _ in 0..5 {
            if self.reach(limit).await.is_some() {
                return true;
            }
        }
        false
    }

    /// The name has these addresses from now on.
    fn resolve_to(&self, answer: &[IpAddr]) {
        *self.answer.lock().unwrap() = answer.to_vec();
    }
}

fn resolver(answer: &Arc<Mutex<Vec<IpAddr>>>, lookups: &Arc<AtomicUsize>, is_silent: &Arc<AtomicBool>) -> Resolver {
    let (answer, lookups, is_silent) = (Arc::clone(answer), Arc::clone(lookups), Arc::clone(is_silent));
    Arc::new(move |host| {
        assert_eq!(host, "api.example");
        lookups.fetch_add(1, Ordering::SeqCst);
        if is_silent.load(Ordering::SeqCst) {
            return pending().boxed();
        }
        let answer = answer.lock().unwrap().iter().map(|address| SocketAddr::new(*address, 0)).collect();
        ready(Ok(answer)).boxed()
    })
}

/// Makes a listener answer nothing, like a machine that is off: its queue of connections is full.
fn fill(listener: &StdListener) -> Vec<StdStream> {
    rustix::net::listen(listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let connections: Vec<_> = (0..16).map_while(|_| StdStream::connect_timeout(&address, SHORT).ok()).collect();
    assert!(connections.len() < 16, "its queue is full");
    connections
}

#[tokio::test]
async fn one_request_reaches_the_working_address_whatever_the_others_do() {
    for machines in [
        &[(v4(2), Dead), (v4(3), Works)][..],
        &[(v4(2), Dead), (v4(3), Dead), (v4(4), Dead), (v4(5), Works)],
        &[(v4(2), Refuses), (v4(3), Dead), (v4(4), Refuses), (v4(5), Works)],
        &[(v4(2), Dead), (V6, Works)],
        &[(V6, Dead), (v4(2), Works)],
        &[(V6, Dead), (v4(2), Dead), (v4(3), Works)],
        &[(v4(2), Works), (v4(3), Dead)],
    ] {
        let network = Network::new(machines);
        assert!(network.reach(LIMIT).await.is_some(), "{machines:?}");
        // The next connection does not wait for a dead address again.
        assert!(network.reaches_soon(ATTEMPT_DELAY).await, "{machines:?}");
    }
}

#[tokio::test]
async fn requests_that_are_shorter_than_one_attempt_reach_the_last_of_four_addresses() {
    let network = Network::new(&[(v4(2), Dead), (v4(3), Dead), (v4(4), Dead), (v4(5), Works)]);
    let mut tries = 0;
    while network.reach(SHORT).await.is_none() {
        tries += 1;
        // Three would do, but on a busy machine the last address may be given up, too.
        assert!(tries <= 30, "each request gives one address up");
        network.connector.addresses.distrust_latest();
    }
}

#[tokio::test]
async fn the_first_failure_is_reported_if_no_address_works() {
    let network = Network::new(&[(v4(2), Refuses), (v4(3), Refuses)]);
    let connecting = network.connector.clone().call("http://api.example:1".parse().unwrap());
    let failure = timeout(LIMIT, connecting).await.unwrap().unwrap_err();
    assert_eq!(failure.to_string(), "cannot connect to 127.0.0.2");
    network.resolve_to(&[]);
    let connecting =
        AddressConnector { addresses: Arc::default(), ..network.connector.clone() }.call(network.server.clone());
    let failure = timeout(LIMIT, connecting).await.unwrap().unwrap_err();
    assert_eq!(failure.to_string(), "dns error: the address of api.example is not known");
}

#[tokio::test]
async fn a_name_is_looked_up_again_for_each_connection_and_a_failed_lookup_costs_nothing() {
    let network = Network::new(&[(v4(2), Works), (v4(3), Works), (v4(4), Dead)]);
    network.resolve_to(&[v4(2)]);
    assert_eq!(network.reach(LIMIT).await, Some(v4(2)));
    network.resolve_to(&[v4(4), v4(3)]);
    assert_eq!(network.reach(LIMIT).await, Some(v4(3)));
    network.resolve_to(&[]);
    assert_eq!(network.reach(LIMIT).await, Some(v4(3)), "the addresses of the former answer");
    network.is_silent.store(true, Ordering::SeqCst);
    let before = network.lookups.load(Ordering::SeqCst);
    for _ in 0..2 {
        assert_eq!(network.reach(LIMIT).await, Some(v4(3)), "the addresses of the former answer");
    }
    assert_eq!(network.lookups.load(Ordering::SeqCst), before + 1, "one lookup at a time");
}

#[tokio::test]
async fn a_lookup_that_takes_longer_than_a_request_serves_the_next_one() {
    let network = Network::new(&[(v4(2), Works)]);
    let (release, released) = tokio::sync::watch::channel(false);
    let resolver: Resolver = Arc::new(move |_| {
        let mut released = released.clone();
        async move {
            let _ = released.wait_for(|released| *released).await;
            Ok(vec![SocketAddr::new(v4(2), 0)])
        }
        .boxed()
    });
    let connector = AddressConnector { resolver, addresses: Arc::default() };
    assert!(timeout(SHORT, connector.clone().call(network.server.clone())).await.is_err());
    release.send_replace(true);
    let addresses = Arc::clone(&connector.addresses);
    timeout(LIMIT, async {
        while addresses.state().known.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_address_that_gave_no_answer_is_tried_last_for_five_minutes() {
    let addresses = Addresses::default();
    let all = [v4(2), v4(3), v4(4)].map(|address| SocketAddr::new(address, 0));
    let order = || addresses.in_order(all.to_vec()).iter().map(std::net::SocketAddr::ip).collect::<Vec<_>>();
    addresses.demote(all[0]);
    assert_eq!(order(), [v4(3), v4(4), v4(2)]);
    addresses.begin(all[1]);
    addresses.distrust_latest();
    addresses.distrust_latest();
    assert_eq!(order(), [v4(4), v4(2), v4(3)]);
    addresses.reached(all[0]);
    assert_eq!(order(), [v4(2), v4(4), v4(3)]);
    tokio::time::advance(DEMOTION).await;
    assert_eq!(order(), [v4(2), v4(3), v4(4)]);
}

#[tokio::test]
async fn an_address_in_the_url_is_not_looked_up() {
    for address in [v4(2), V6] {
        let network = Network::new(&[(address, Works)]);
        let server = format!("http://{}", SocketAddr::new(address, network.server.port_u16().unwrap()));
        let connected = timeout(LIMIT, network.connector.clone().call(server.parse().unwrap())).await.unwrap();
        assert_eq!(connected.unwrap().inner().peer_addr().unwrap().ip(), address);
        assert_eq!(network.lookups.load(Ordering::SeqCst), 0);
    }
}
