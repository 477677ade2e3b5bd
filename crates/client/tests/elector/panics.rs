//! Processes that abort on a panic. Each process is this test binary again. It runs one test, which is ignored
//! otherwise.

use std::env;
use std::panic;
use std::process::{Command, Output, Stdio, abort};
use std::time::Duration;

use anyhow::{Context as _, Result};
use hustings_client::model::{Cause, Ending};
use hustings_client::{Elector, Term, lease_client, release_on_panic};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::stage::{LEASE, LONG, PATIENCE, Stage};

/// The environment variables of a child: its namespace, its kubeconfig, and what panics in it.
const NAMESPACE: &str = "PANICS_NAMESPACE";
const KUBECONFIG: &str = "PANICS_KUBECONFIG";
const PANICS: &str = "PANICS_WHERE";

#[tokio::test]
async fn a_process_that_aborts_on_a_panic_has_released_its_lease_if_the_hook_is_installed() -> Result<()> {
    for (panics, releases) in
        [("run", true), ("function", true), ("spawned task", true), ("plain thread", true), ("without the hook", false)]
    {
        let stage = Stage::with_open_lease("panics").await?;
        let output = child(&stage, panics).await?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("on purpose"), "{panics}: {stderr}");
        assert!(output.status.code().is_none(), "{panics}: it aborts: {stderr}");
        let record = stage.lease().await?.record;
        assert_eq!(record.is_given_up(), releases, "{panics}: {record:?}\n{stderr}");
        let ending = record.history.terms().next().map(|term| term.ending);
        assert_eq!(ending, releases.then_some(Ending::Released(Cause::Panicked)), "{panics}: {record:?}");
    }
    Ok(())
}

async fn child(stage: &Stage, panics: &str) -> Result<Output> {
    let mut child = Command::new(env::current_exe()?);
    child.args(["--exact", "elector::panics::child_that_panics", "--ignored", "--nocapture"]);
    child.env(NAMESPACE, &stage.namespace).env(KUBECONFIG, stage.plane.kubeconfig()).env(PANICS, panics);
    child.stdout(Stdio::null()).stderr(Stdio::piped());
    let output = tokio::process::Command::from(child).kill_on_drop(true).output();
    Ok(tokio::time::timeout(PATIENCE, output).await.context("the child hangs")??)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it is the child of another test"]
async fn child_that_panics() {
    let (panics, namespace) = (env::var(PANICS).unwrap(), env::var(NAMESPACE).unwrap());
    let kubeconfig = Kubeconfig::read_from(env::var(KUBECONFIG).unwrap()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = lease_client(config).unwrap();
    let shutdown = CancellationToken::new();
    let builder = Elector::direct(client, &namespace, LEASE).identity("a").timing(LONG);
    let elector = builder.shutdown(&shutdown).build().unwrap();
    if panics != "without the hook" {
        release_on_panic(&shutdown, [elector.leadership()], Duration::from_secs(20));
    }
    // As `panic = "abort"` does, after all hooks.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        hook(panic);
        abort();
    }));
    let ended = match panics.as_str() {
        "function" => elector.function("other", idle).function("panics", work).run().await,
        _ => elector.run(work).await,
    };
    unreachable!("{ended:?}");
}

async fn idle(term: Term) {
    term.cancelled().await;
}

async fn work(term: Term) {
    sleep(Duration::from_millis(10)).await;
    match env::var(PANICS).as_deref().unwrap_or_default() {
        "spawned task" => drop(tokio::spawn(async { panic!("on purpose") })),
        "plain thread" => drop(std::thread::spawn(|| panic!("on purpose"))),
        _ => panic!("on purpose"),
    }
    term.cancelled().await;
}
