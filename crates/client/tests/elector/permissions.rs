//! An elector that lacks a permission logs which one.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use anyhow::{Result, ensure};
use http::{Request, Response, StatusCode};
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::store::{self, Nomination, Store as _};
use hustings_client::{Campaign, Elector, lease_client};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tracing::subscriber::DefaultGuard;

use super::rights::{Account, GRANTS, LEASES};
use super::stage::{LEASE, LONG, Stage, eventually};

/// The log lines of a test.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics here").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Captures log lines until the guard is dropped. The test and its electors share one thread.
    pub(super) fn listen() -> (Self, DefaultGuard) {
        // This subscriber drops the lines of other tests. Without it, a thread that reached a log line first would
        // disable the line for all threads.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    pub(super) fn lines(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.0.lock().expect("nobody panics here")).lines().map(str::to_owned).collect()
    }

    pub(super) async fn tells(&self, text: &str) -> Result<()> {
        eventually(text, || async { self.lines().iter().any(|line| line.contains(text)).then_some(()) }).await
    }
}

#[tokio::test]
async fn each_verb_that_rbac_does_not_grant_is_named_with_its_resource_and_no_other_is() -> Result<()> {
    let (log, _guard) = Log::listen();
    let lines = || -> Vec<String> { log.lines().into_iter().filter(|line| line.contains("not allowed: ")).collect() };

    let stage = Stage::with_candidates("permissions").await?;
    let mut campaigns = Vec::new();
    for (group, resource, verbs) in GRANTS {
        for &verb in verbs {
            let account = Account::new(&stage, &format!("no-{verb}-{resource}")).await?;
            account.revoke(resource, verb).await?;
            let client = lease_client(account.config())?;
            let client = if verb == "list" { without_streams(client, resource) } else { client };
            let campaign = start(&stage, client, resource, verb).await?;
            if verb == "delete" {
                stage.candidate_where(campaign.leadership().identity(), "it stands", |_| true).await?;
                // The elector stops in time, although it cannot delete its candidate.
                campaign.stop().await?;
            } else {
                campaigns.push(campaign);
            }
            let wanted = format!("grant the verb {verb} on {resource}.{group} in namespace {}", stage.namespace);
            let name = format!("no-{verb}-{resource}");
            eventually(&wanted, || async {
                lines().iter().any(|line| line.contains(&wanted) && line.contains(&name)).then_some(())
            })
            .await?;
            let other = lines().into_iter().find(|line| line.contains(&name) && !line.contains(&wanted));
            ensure!(other.is_none(), "{other:?}");
        }
    }
    Ok(())
}

/// A client of a server that does not stream lists of this resource.
fn without_streams(client: Client, resource: &str) -> Client {
    let path = format!("/{resource}");
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let streams = request.uri().query().is_some_and(|query| query.contains("sendInitialEvents="));
        let is_refused = streams && request.uri().path().ends_with(&path);
        async move {
            if is_refused {
                let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422,
                    "reason": "Invalid", "message": "sendInitialEvents is forbidden" });
                let mut refusal = Response::new(Body::from(status.to_string().into_bytes()));
                *refusal.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
                return Ok(refusal);
            }
            client.send(request).await
        }
    });
    Client::new(service, "default")
}

/// Starts an elector whose ServiceAccount has every permission that it needs except this verb on this resource.
async fn start(stage: &Stage, client: Client, resource: &str, verb: &str) -> Result<Campaign> {
    let name = format!("no-{verb}-{resource}");
    if resource == LEASES {
        return Ok(Elector::direct(client, &stage.namespace, &name).identity("a").timing(LONG).build()?.start());
    }
    if verb == "patch" {
        // The elector finds a candidate, which it must patch.
        let nomination = Nomination {
            name: name.clone(),
            lease_name: LEASE.to_owned(),
            binary_version: "1.1.0".to_owned(),
            emulation_version: Some("1.1.0".to_owned()),
            lease_duration_seconds: 15,
            session: "s".to_owned(),
            ..Nomination::default()
        };
        let nomination = Box::new(nomination);
        let create = store::Request::CreateCandidate { nomination, renew_time: SystemClock.wall() };
        stage.store().send(&stage.namespace, &create).await?;
    }
    let builder = Elector::coordinated(client, &stage.namespace, LEASE, "1.2.0").identity(name);
    Ok(builder.timing(LONG).build()?.start())
}
