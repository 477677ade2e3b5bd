//! The ways in which a program learns that it leads.

use std::{
    env,
    io::{self, BufRead, Read, Write},
    net::TcpStream,
    process::{ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use hustings_client::{Durations, Elector, lease_client};
use kube::Config;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use crate::{
    harm::{self, SteppedClock},
    report::{Reporter, now},
    service,
};

/// The time between two reports.
const PERIOD: Duration = Duration::from_millis(5);

const SIDECAR: &str = "127.0.0.1:4040";

/// Leads as long as it runs.
pub(crate) fn command() -> Result<ExitCode> {
    let reporter = Reporter::from_env()?;
    loop {
        report_if(&reporter, &mut true, || Ok(true))?;
    }
}

/// Leads while its elector does.
#[tokio::main]
pub(crate) async fn library() -> Result<ExitCode> {
    let reporter = Reporter::from_env()?;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Config::incluster().context("this is not a pod")?;
    let variable = |name: &str| env::var(name).with_context(|| format!("{name} is not set"));
    let (lease, version) = (variable("LEASE")?, variable("VERSION")?);

    let mut durations = Durations::default();
    if let Ok(seconds) = env::var("LEASE_SECONDS") {
        durations.lease_duration_seconds = seconds.parse().with_context(|| format!("LEASE_SECONDS is {seconds:?}"))?;
    }

    let shutdown = CancellationToken::new();
    let elector = Elector::coordinated(lease_client(config.clone())?, &config.default_namespace, lease, version)
        .timing(durations)
        .clock(Arc::new(SteppedClock))
        .shutdown(&shutdown)
        .build()?;
    let leadership = elector.leadership();
    let answered = elector.leadership();
    thread::spawn(move || service::answer(|| answered.is_leader()));
    thread::spawn(move || {
        let mut leads = false;
        while report_if(&reporter, &mut leads, || Ok(leadership.is_leader())).is_ok() {}
    });

    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        terminate.recv().await;
        shutdown.cancel();
    });
    elector.run(|term| async move { term.cancellation().cancelled_owned().await }).await?;
    Ok(ExitCode::SUCCESS)
}

/// Leads while the sidecar answers so.
pub(crate) fn sidecar() -> Result<ExitCode> {
    let reporter = Reporter::from_env()?;
    let mut leads = false;
    loop {
        // A sidecar that does not answer is a replica that does not lead.
        report_if(&reporter, &mut leads, || Ok(ask().unwrap_or(false)))?;
    }
}

/// Leads between two lines of its standard input.
pub(crate) fn relay() -> Result<ExitCode> {
    let leading = report_while(Reporter::from_env()?);
    for line in io::stdin().lock().lines() {
        let line = line?;
        println!("{line}");
        let event: Value = serde_json::from_str(&line).unwrap_or_default();
        match event["event"].as_str() {
            Some("leading") => leading.store(true, Ordering::Release),
            Some("stopped") => leading.store(false, Ordering::Release),
            _ => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Leads from the line with which client-go logs that it has acquired the Lease. Its work ends with the signal to stop.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn beside(program: &str, arguments: &[&str]) -> Result<ExitCode> {
    let leading = report_while(Reporter::from_env()?);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut child = Command::new(program).args(arguments).stderr(Stdio::piped()).spawn().context("cannot start it")?;
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?)).context("it has no number")?;
    let mut log = BufReader::new(child.stderr.take().context("it has no log")?).lines();
    loop {
        tokio::select! {
            line = log.next_line() => {
                let Some(line) = line? else { break };
                eprintln!("{line}");
                if line.contains("uccessfully acquired lease") {
                    leading.store(true, Ordering::Release);
                } else if line.contains("ailed to renew lease") {
                    leading.store(false, Ordering::Release);
                }
            }
            _ = terminate.recv() => {
                leading.store(false, Ordering::Release);
                let _ = kill_process(pid, Signal::TERM);
            }
        }
    }
    leading.store(false, Ordering::Release);
    let code = child.wait().await?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Never leads, and ends with SIGTERM.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn pause() -> Result<ExitCode> {
    signal(SignalKind::terminate())?.recv().await;
    Ok(ExitCode::SUCCESS)
}

/// Reports on a thread of its own while the returned value is set.
fn report_while(reporter: Reporter) -> Arc<AtomicBool> {
    let leading = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&leading);
    thread::spawn(move || {
        let mut leads = false;
        while report_if(&reporter, &mut leads, || Ok(told.load(Ordering::Acquire))).is_ok() {}
    });
    leading
}

/// Reports once if it leads now, and waits for a period.
fn report_if(reporter: &Reporter, led: &mut bool, leads: impl FnOnce() -> Result<bool>) -> Result<()> {
    let after = now();
    let leads = leads()?;
    if leads {
        if !*led {
            reporter.begin();
        }
        reporter.led(after, now());
        harm::obey();
    }
    *led = leads;
    thread::sleep(PERIOD);
    Ok(())
}

/// The answer of the sidecar.
fn ask() -> Result<bool> {
    let mut connection = TcpStream::connect(SIDECAR)?;
    connection.set_read_timeout(Some(Duration::from_secs(1)))?;
    write!(connection, "GET /leader HTTP/1.0\r\nHost: {SIDECAR}\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no HTTP")?;
    let answer: Value = serde_json::from_str(body)?;
    answer["isLeader"].as_bool().context("no answer")
}
