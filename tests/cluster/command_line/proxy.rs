//! A cluster behind an HTTP proxy.

use std::{
    fs,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use hustings_controlplane::shared;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

use super::said;
use crate::replica::{Replica, hustings};

/// An address on which no proxy listens.
const NO_PROXY_HERE: &str = "http://localhost:1";

/// A proxy that serves CONNECT to one address only, and counts its connections.
struct Proxy {
    address: String,
    connected: Arc<AtomicUsize>,
}

impl Proxy {
    async fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let connected = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connected);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(tunnel(stream, server.clone(), Arc::clone(&counted)));
            }
        });
        Self { address, connected }
    }

    fn connected(&self) -> usize {
        self.connected.load(Ordering::SeqCst)
    }
}

async fn tunnel(stream: TcpStream, server: String, connected: Arc<AtomicUsize>) -> std::io::Result<()> {
    let mut client = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && client.read_line(&mut head).await? > 0 {}
    if !head.starts_with(&format!("CONNECT {server} HTTP/1.1\r\n")) {
        return client.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await;
    }
    connected.fetch_add(1, Ordering::SeqCst);
    let mut server = TcpStream::connect(server).await?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// A command in an environment that names these proxies and no other.
fn command(arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = hustings();
    command.args(arguments);
    for name in ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"] {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied());
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_reach_the_cluster_through_the_proxy_of_the_kubeconfig() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("proxy").await.unwrap();
    let proxy = Proxy::to(plane.url().authority().unwrap().to_string()).await;
    let direct = plane.kubeconfig();
    let mut through: Value = serde_json::from_slice(&fs::read(&direct).unwrap()).unwrap();
    through["clusters"][0]["cluster"]["proxy-url"] = json!(proxy.address);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, through.to_string()).unwrap();
    let [direct, through] = [&direct, file.path()].map(|path| path.to_str().unwrap());

    let elector = ["campaign", "--lease=work", "--identity=a", "--direct", "-o=json", "--kubeconfig", through];
    let elector = command(&[&elector[..], &["--namespace", &namespace]].concat(), &[]);
    let elector = Replica::start(&plane, &namespace, "a", elector);
    elector.says("leading", 0).await;
    assert!(proxy.connected() > 0, "{}", elector.log());

    let status = |kubeconfig: &str, environment: &[(&str, &str)]| {
        let before = proxy.connected();
        let arguments = ["status", "work", "--namespace", &namespace, "--kubeconfig", kubeconfig];
        let output = command(&arguments, environment).output().unwrap();
        (output.status.code(), proxy.connected() > before, said(&output))
    };
    for (kubeconfig, environment, expected) in [
        (through, &[][..], (Some(0), true)),
        (through, &[("HTTPS_PROXY", NO_PROXY_HERE), ("NO_PROXY", "*")][..], (Some(0), true)),
        // The variables do not apply to a server on this machine; `access::proxies` has other servers.
        (direct, &[("https_proxy", proxy.address.as_str())][..], (Some(0), false)),
        (direct, &[("HTTPS_PROXY", NO_PROXY_HERE)][..], (Some(0), false)),
    ] {
        let (code, is_through, said) = status(kubeconfig, environment);
        assert_eq!((code, is_through), expected, "{environment:?}: {said}");
    }
}
