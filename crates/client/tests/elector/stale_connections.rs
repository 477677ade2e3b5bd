//! A load balancer that fails over silently. Requests on earlier connections get no answer, or a reset, while new
//! connections work at once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::{join_all, try_join_all};
use hustings_client::clock::SystemClock;
use hustings_client::store::{Kubernetes, Request, Store as _};
use hustings_client::{Durations, Elector, Timing, lease_client};
use kube::Config;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::coordinated::grant;
use super::stage::{LEASE, Stage, eventually, leads};

/// How long a request may take. This is a small part of the deadline of 10 s, so that the test also passes on a machine
/// that stalls for a few seconds. Without new connections, there are more stale connections than attempts.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(1_500);

/// How many connections are idle at the failover: more than the attempts before the deadline.
const IDLE: usize = 24;

/// What happens to a request on a connection from before the failover.
#[derive(Clone, Copy, Debug)]
enum Stale {
    /// It gets no answer.
    Swallows,
    /// Its connection is reset.
    Resets,
}

/// Forwards connections, and can make all of them stale.
struct Balancer {
    failovers: watch::Sender<Option<Stale>>,
    config: Config,
}

impl Balancer {
    async fn before(config: &Config) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let failovers = watch::Sender::new(None);
        let mut through = config.clone();
        through.cluster_url = format!("https://{}/", listener.local_addr()?).parse()?;
        let server = config.cluster_url.authority().context("the server has an address")?.to_string();
        let seen = failovers.subscribe();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(forward(stream, server.clone(), seen.clone()));
            }
        });
        Ok(Self { failovers, config: through })
    }

    fn fail_over(&self, stale: Stale) {
        self.failovers.send_replace(Some(stale));
    }
}

async fn forward(mut client: TcpStream, server: String, mut failovers: watch::Receiver<Option<Stale>>) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    failovers.borrow_and_update();
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = failovers.changed() => {
            let resets = matches!(*failovers.borrow(), Some(Stale::Resets));
            if resets {
                // The kernel resets a connection that is closed with unread data.
                let _ = client.readable().await;
            } else {
                // The client gets neither an answer nor a reset for as long as it keeps the connection.
                let _ = tokio::io::copy(&mut client, &mut tokio::io::sink()).await;
            }
        }
    }
}

#[tokio::test]
async fn a_silent_failover_of_the_load_balancer_costs_no_term() -> Result<()> {
    let cases = [(false, Stale::Swallows), (true, Stale::Swallows), (false, Stale::Resets), (true, Stale::Resets)];
    try_join_all(cases.map(|(coordinated, path)| fail_over_once(coordinated, path))).await?;
    Ok(())
}

async fn fail_over_once(coordinated: bool, path: Stale) -> Result<()> {
    let stage = if coordinated {
        Stage::with_candidates("failover").await?
    } else {
        Stage::with_open_lease("failover").await?
    };
    let balancer = Balancer::before(&stage.plane.config()).await?;
    let client = lease_client(balancer.config.clone())?;
    let timing = Durations { request_timeout: REQUEST_TIMEOUT, ..Durations::default() };
    let elector = if coordinated {
        // The test creates the Lease, however long the candidate waits for it.
        Elector::coordinated(client.clone(), &stage.namespace, LEASE, "1.0.0").fallback(false)
    } else {
        Elector::direct(client.clone(), &stage.namespace, LEASE)
    };
    let campaign = elector.identity("a").timing(timing).build()?.start();
    if coordinated {
        stage.candidate_where("a", "the candidate stands", |_| true).await?;
        grant(&stage, "a").await?;
    }
    let leadership = campaign.leadership();
    let term = leads(&leadership).await?;
    // Concurrent reads, so that each opens a connection.
    let (reads, read) =
        (Kubernetes::new(client, SystemClock::shared(), Duration::from_secs(10)), Request::read_lease(LEASE));
    join_all((0..IDLE).map(|_| reads.send(&stage.namespace, &read))).await;
    balancer.fail_over(path);
    let before = stage.lease().await?.record.renew_time;
    eventually("the holder renews", || async { (stage.lease().await.ok()?.record.renew_time > before).then_some(()) })
        .await?;
    ensure!(leadership.term().as_ref() == Some(&term), "the term was lost: {path:?}, coordinated: {coordinated}");
    campaign.stop().await?;
    Ok(())
}

/// The default timing, with the usual connections: an elector has few, and most are idle for less than a minute.
#[tokio::test]
#[ignore = "takes three minutes"]
async fn fifty_failovers_with_the_default_timing_cost_no_term() -> Result<()> {
    let stage = Stage::with_candidates("failovers").await?;
    let runs = (0..50_u64).map(|number| {
        let stage = &stage;
        async move {
            let path = if number % 4 == 0 { Stale::Resets } else { Stale::Swallows };
            let balancer = Balancer::before(&stage.plane.config()).await?;
            let client = lease_client(balancer.config.clone())?;
            let name = format!("lease-{number}");
            let elector = if number % 2 == 0 {
                Elector::coordinated(client, &stage.namespace, name, "1.0.0")
            } else {
                Elector::direct(client, &stage.namespace, name)
            };
            let campaign = elector.identity(format!("elector-{number}")).build()?.start();
            let leadership = campaign.leadership();
            let term = leads(&leadership).await?;
            // The runs fail over at different moments of their watches, each of which lasts a minute.
            sleep(Duration::from_millis(60_000 + number * 1_300)).await;
            balancer.fail_over(path);
            let until = Instant::now() + Duration::from_secs(30);
            let mut least = Duration::MAX;
            while Instant::now() < until {
                least = least.min(leadership.remaining());
                sleep(Duration::from_millis(20)).await;
            }
            let gap = Timing::default().renew_deadline().saturating_sub(least);
            anyhow::Ok((gap, number, path, leadership.term() == Some(term)))
        }
    });
    let mut runs: Vec<_> = futures::future::try_join_all(runs).await?;
    runs.sort_by_key(|(gap, ..)| *gap);
    let lost: Vec<_> = runs.iter().filter(|(.., is_kept)| !is_kept).collect();
    println!("{} of {} terms lost; greatest times without a renewal: {:#?}", lost.len(), runs.len(), &runs[45..]);
    ensure!(lost.is_empty(), "{lost:#?}");
    Ok(())
}
