//! A load balancer that fails over without a word: what goes over the connections from before gets no answer any more,
//! while new ones work at once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use hustings_client::clock::SystemClock;
use hustings_client::requests::Requests;
use hustings_client::{Elector, Timing, lease_client};
use kube::Config;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::stage::{LEASE, LONG, Stage, eventually, leads};

/// A timeout takes little of the deadline, so that the test stays the same on a machine that stalls for a few seconds.
/// Without new connections no number of attempts would be enough.
const TIMING: Timing = Timing { request_timeout: Duration::from_millis(1_500), ..LONG };

/// How many connections lie idle at the failover: more than there are attempts before the deadline.
const IDLE: usize = 24;

/// A forwarder of connections, all of which can be made to swallow what comes.
struct Balancer {
    failovers: watch::Sender<usize>,
    config: Config,
}

impl Balancer {
    async fn before(config: &Config) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let failovers = watch::Sender::new(0);
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

    fn fail_over(&self) {
        self.failovers.send_modify(|failovers| *failovers += 1);
    }
}

async fn forward(mut client: TcpStream, server: String, mut failovers: watch::Receiver<usize>) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    failovers.borrow_and_update();
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = failovers.changed() => {
            // Neither an answer nor a reset, for as long as the client keeps it.
            let mut void = tokio::io::sink();
            let _ = tokio::io::copy(&mut client, &mut void).await;
        }
    }
}

#[tokio::test]
async fn a_silent_failover_of_the_load_balancer_costs_no_term() -> Result<()> {
    for coordinated in [false, true] {
        let stage = if coordinated {
            Stage::with_candidates("failover").await?
        } else {
            Stage::with_open_lease("failover").await?
        };
        let balancer = Balancer::before(&stage.plane.config()).await?;
        let client = lease_client(balancer.config.clone())?;
        let elector = Elector::builder(client.clone(), &stage.namespace, LEASE).identity("a").timing(TIMING);
        let elector = if coordinated { elector.binary_version("1.0.0") } else { elector.direct() };
        let campaign = elector.build()?.start();
        let leadership = campaign.leadership();
        let term = leads(&leadership).await?;
        // As many connections as are needed at a time.
        let reads = Requests::new(client, SystemClock::shared(), Duration::from_secs(10));
        join_all((0..IDLE).map(|_| reads.read_lease(&stage.namespace, LEASE))).await;
        balancer.fail_over();
        let before = stage.lease().await?.record.renew_time;
        eventually("the holder renews", || async {
            (stage.lease().await.ok()?.record.renew_time > before).then_some(())
        })
        .await?;
        ensure!(leadership.term().as_ref() == Some(&term), "the term was lost");
        campaign.stop().await?;
    }
    Ok(())
}
