//! An elector that lacks a permission says which.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use hustings_client::backend::Backend;
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::{Campaign, Elector, Nomination, lease_client};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::PostParams;
use kube::{Api, Config};
use serde_json::json;

use super::stage::{LONG, Stage, eventually};

// Lists are for servers that do not stream them, and for the fallback.
const LEASES: (&str, &str, &[&str]) = ("coordination.k8s.io", "leases", &["get", "watch", "create", "patch"]);
const CANDIDATES: (&str, &str, &[&str]) =
    ("hustings.io", "leasecandidates", &["get", "watch", "create", "patch", "delete"]);

/// What was told.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics here").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn each_verb_that_rbac_does_not_grant_is_named_with_its_resource_and_no_other_is() -> Result<()> {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    // The test has one thread, and so have its electors.
    let _guard = tracing::subscriber::set_default(subscriber);
    let lines = || -> Vec<String> {
        let log = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
        log.lines().filter(|line| line.contains("not allowed: ")).map(str::to_owned).collect()
    };

    let stage = Stage::with_candidates("permissions").await?;
    let mut campaigns = Vec::new();
    for (group, resource, verbs) in [LEASES, CANDIDATES] {
        for verb in verbs {
            let campaign = start(&stage, resource, verb).await?;
            if *verb == "delete" {
                stage.candidate_where(campaign.leadership().identity(), "it stands", |_| true).await?;
                // What cannot be deleted is let be, in time.
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

/// An elector whose ServiceAccount may do everything but this.
async fn start(stage: &Stage, resource: &str, verb: &str) -> Result<Campaign> {
    let name = format!("no-{verb}-{resource}");
    let client = lease_client(account(stage, &name, resource, verb).await?)?;
    if resource == LEASES.1 {
        return Ok(Elector::builder(client, &stage.namespace, &name)
            .identity("a")
            .direct()
            .timing(LONG)
            .build()?
            .start());
    }
    if verb == "patch" {
        // There is something to refresh.
        let nomination = Nomination {
            namespace: stage.namespace.clone(),
            name: name.clone(),
            lease_name: "lease".to_owned(),
            binary_version: "1.1.0".to_owned(),
            emulation_version: Some("1.1.0".to_owned()),
            strategy: None,
            priority: None,
            lease_duration_seconds: 15,
            pod: None,
        };
        Backend::create_candidate(&stage.requests(), &nomination, SystemClock.wall()).await?;
    }
    let builder = Elector::builder(client, &stage.namespace, "lease").identity(name).binary_version("1.2.0");
    Ok(builder.timing(LONG).build()?.start())
}

async fn account(stage: &Stage, name: &str, without_resource: &str, without_verb: &str) -> Result<Config> {
    stage.plane.create_service_account(&stage.namespace, name).await?;
    let rules = [LEASES, CANDIDATES].map(|(group, resource, verbs)| {
        let granted = |verb: &&&str| !(resource == without_resource && **verb == without_verb);
        let verbs: Vec<_> = verbs.iter().filter(granted).collect();
        json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs })
    });
    let role: Role = serde_json::from_value(json!({ "metadata": { "name": name }, "rules": rules }))?;
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": stage.namespace }],
    }))?;
    let client = stage.client.clone();
    Api::<Role>::namespaced(client.clone(), &stage.namespace).create(&PostParams::default(), &role).await?;
    Api::<RoleBinding>::namespaced(client, &stage.namespace).create(&PostParams::default(), &binding).await?;

    let config = stage.plane.config_for_service_account(&stage.namespace, name).await?;
    // The server's authorizer reads from a cache. Of one resource this verb is granted.
    let (group, resource, _) = if without_resource == LEASES.1 { CANDIDATES } else { LEASES };
    let question = json!({ "spec": { "resourceAttributes": {
        "namespace": stage.namespace, "verb": "get", "group": group, "resource": resource,
    } } });
    let question: SelfSubjectAccessReview = serde_json::from_value(question)?;
    let reviews = Api::<SelfSubjectAccessReview>::all(lease_client(config.clone())?);
    eventually("the role is in force", || async {
        let answer = reviews.create(&PostParams::default(), &question).await.ok()?;
        answer.status?.allowed.then_some(())
    })
    .await
    .context(name.to_owned())?;
    Ok(config)
}
