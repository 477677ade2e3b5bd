//! A control plane of three members of etcd and two API servers, whose network can fail.
//!
//! As in a cluster that kubeadm sets up, each API server has a member of etcd of its own: server 0 uses member 0, and
//! server 1 uses member 1. A load balancer forwards clients to one of the servers, which the test selects.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    ControlPlane,
    forwarder::{Forwarder, Stale},
};

/// How long a request to a member of etcd may take: a member that is cut off does not answer.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

pub(crate) const MEMBERS: usize = 3;
pub(crate) const SERVERS: usize = 2;

/// The network of a replicated control plane.
pub(crate) struct Network {
    /// From clients to an API server.
    pub(crate) front: Forwarder,
    /// From each API server to its member of etcd.
    pub(crate) links: Vec<Forwarder>,
    /// To each member of etcd from the others.
    pub(crate) peers: Vec<Forwarder>,
}

impl Network {
    /// The forwarders to these ports.
    pub(crate) fn new(servers: &[u16], clients: &[u16], peers: &[u16]) -> Result<Self> {
        let all = |ports: &[u16]| ports.iter().map(|port| Forwarder::to(local(*port))).collect::<Result<Vec<_>>>();
        let front = Forwarder::to(local(servers[0]))?;
        Ok(Self { front, links: all(&clients[..servers.len()])?, peers: all(peers)? })
    }
}

/// A port of this machine.
pub(crate) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// These methods return an error if the control plane was not started as [`replicated`](crate::Builder::replicated).
impl ControlPlane {
    /// Makes the load balancer forward new connections to this API server. Open connections stay.
    pub fn switch_to(&self, server: usize) -> Result<()> {
        self.network()?.front.switch(local(self.servers[server].port));
        Ok(())
    }

    /// Makes the load balancer forward new connections to this API server. All open connections become stale.
    pub fn fail_over_to(&self, server: usize, stale: Stale) -> Result<()> {
        self.switch_to(server)?;
        self.network()?.front.fail_over(stale);
        Ok(())
    }

    /// Cuts the network between an API server and etcd.
    pub fn partition_server(&self, server: usize) -> Result<()> {
        self.network()?.links[server].hold();
        Ok(())
    }

    /// Cuts the network between a member of etcd and the other members. It needs `/proc`, which Linux has.
    pub fn partition_member(&self, member: usize) -> Result<()> {
        ensure!(cfg!(target_os = "linux"), "members of etcd can be partitioned on Linux only");
        for (number, peer) in self.network()?.peers.iter().enumerate() {
            if number == member {
                peer.hold();
            } else {
                peer.hold_from(vec![self.members[member].process.pid()]);
            }
        }
        Ok(())
    }

    /// Ends all partitions.
    pub fn heal(&self) -> Result<()> {
        let network = self.network()?;
        network.links.iter().chain(&network.peers).for_each(Forwarder::release);
        Ok(())
    }

    /// The administrator's configuration for one API server, past the load balancer.
    pub fn config_of(&self, server: usize) -> Result<Config> {
        let mut config = self.config();
        config.cluster_url = format!("https://127.0.0.1:{}", self.servers[server].port).parse()?;
        Ok(config)
    }

    /// The member of etcd that leads, according to the members that answer.
    pub async fn etcd_leader(&self) -> Result<usize> {
        let mut ids = Vec::new();
        let mut leaders = Vec::new();
        for member in 0..self.members.len() {
            // etcd writes 64-bit numbers as strings.
            let status = self.ask_etcd(member, "/v3/maintenance/status", json!({})).await.unwrap_or_default();
            ids.push(status["header"]["member_id"].as_str().map(str::to_owned));
            let term = status["raftTerm"].as_str().and_then(|term| term.parse::<u64>().ok());
            leaders.push(term.zip(status["leader"].as_str().filter(|leader| *leader != "0").map(str::to_owned)));
        }
        let (_, leader) = leaders.into_iter().flatten().max().context("etcd has no leader")?;
        ids.iter().position(|id| id.as_ref() == Some(&leader)).context("the leader of etcd does not answer")
    }

    /// Moves the leadership of etcd to this member, if another has it.
    pub async fn move_etcd_leader(&self, to: usize) -> Result<()> {
        let leader = self.etcd_leader().await?;
        if leader == to {
            return Ok(());
        }
        let status = self.ask_etcd(to, "/v3/maintenance/status", json!({})).await?;
        let target = json!({"targetID": status["header"]["member_id"]});
        self.ask_etcd(leader, "/v3/maintenance/transfer-leadership", target).await.map(drop)
    }

    async fn ask_etcd(&self, member: usize, path: &str, body: Value) -> Result<Value> {
        let url = format!("http://127.0.0.1:{}", self.members[member].port).parse()?;
        let client = Client::try_from(Config::new(url))?;
        let request = Request::post(path).body(body.to_string().into_bytes())?;
        let answer = timeout(REQUEST_LIMIT, client.request::<Value>(request)).await;
        Ok(answer.with_context(|| format!("member {member} of etcd does not answer"))??)
    }

    fn network(&self) -> Result<&Network> {
        self.network.as_ref().context("this control plane was not started as `replicated`")
    }
}
