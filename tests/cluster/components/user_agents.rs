//! Every request names the program that sends it, so that the API server's audit log and metrics distinguish them.

use std::collections::{BTreeMap, BTreeSet};

use hustings_client::{Campaign, Elector, lease_client};
use hustings_controlplane::ControlPlane;
use kube::Client;

use crate::replica::{Replica, campaign, candidate_account, controller, hustings, install_chart, lease, until};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[tokio::test]
async fn every_request_of_each_command_and_of_the_library_names_its_program() {
    let plane = ControlPlane::builder().audit(true).start().await.unwrap();
    install_chart(&plane, &[]).await;
    let _controller = controller(&plane, "hustings-0", &[]).await;
    let shop = plane.create_namespace("shop").await.unwrap();

    // Each program has an account of its own, so that the log shows its sender.
    let mut running = Vec::new();
    for command in ["campaign", "run", "sidecar"] {
        let kubeconfig = candidate_account(&plane, &shop, command).await;
        let mut arguments = campaign(&kubeconfig, &shop, command, command, &["--binary-version=1.0.0"]);
        if command != "campaign" {
            let addresses = ["--listen=127.0.0.1:0", "--admin-address=127.0.0.1:0"];
            let addresses = if command == "sidecar" { &addresses[..] } else { &addresses[1..] };
            arguments = hustings();
            arguments.args([command, "--namespace", &shop, "--lease", command, "--identity", command]);
            arguments.args(["--binary-version=1.0.0", "--kubeconfig"]).arg(kubeconfig).args(addresses);
        }
        if command == "run" {
            // The test kills the wrapper and its guardian, so neither removes its directory.
            arguments.args(["--", "sleep", "1000"]).env("TMPDIR", plane.folder());
        }
        running.push(Replica::start(&plane, &shop, command, arguments));
    }
    let _library = elector(&plane, &shop, "library", |config| lease_client(config).unwrap()).await;
    let _plain = elector(&plane, &shop, "plain", |config| Client::try_from(config).unwrap()).await;
    for name in ["campaign", "run", "sidecar", "library", "plain"] {
        let holds = async || (lease(&plane, &shop, name).await["spec"]["holderIdentity"] == name).then_some(());
        until(name, || running.iter().map(Replica::log).collect(), holds).await;
    }
    let status_account = candidate_account(&plane, &shop, "status").await;
    let status =
        hustings().args(["status", "--namespace", &shop, "--kubeconfig"]).arg(status_account).output().unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));

    let agents = async || {
        let agents = agents(&plane);
        // Each program first reviews its own rights, and last publishes events.
        let is_whole = |user: &str, resources: &[&str]| {
            let asked = agents.iter().filter(|((by, _), _)| by == user).flat_map(|(_, resources)| resources);
            let asked: BTreeSet<_> = asked.map(String::as_str).collect();
            resources.iter().all(|resource| asked.contains(resource))
        };
        let all = ["leases", "leasecandidates", "events"];
        let is_complete = is_whole("hustings", &all)
            && is_whole("hustings", &["selfsubjectaccessreviews"])
            && is_whole("library", &all)
            && is_whole("plain", &all)
            && ["campaign", "run", "sidecar", "status"].iter().all(|user| is_whole(user, &all[..2]));
        is_complete.then_some(agents)
    };
    let agents = until("every program has sent its requests", || format!("{:#?}", self::agents(&plane)), agents).await;
    let named = |user: &str, agent: String| (user.to_owned(), agent);
    let program = std::env::current_exe().unwrap().file_name().unwrap().to_str().unwrap().replace('_', "-");
    let mut expected: BTreeSet<_> =
        ["campaign", "run", "sidecar", "status"].map(|name| named(name, format!("hustings-{name}/{VERSION}"))).into();
    expected.insert(named("hustings", format!("hustings-controller/{VERSION}")));
    for user in ["library", "plain"] {
        expected.insert(named(user, format!("{program} hustings-client/{VERSION}")));
    }
    let found: BTreeSet<_> = agents.keys().cloned().collect();
    assert_eq!(found, expected, "{agents:#?}");
}

/// An elector that publishes events and finds out why it fails, with a client under its own account.
async fn elector(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    client: impl FnOnce(kube::Config) -> Client,
) -> Campaign {
    candidate_account(plane, namespace, name).await;
    let client = client(plane.config_for_service_account(namespace, name).await.unwrap());
    let elector = Elector::coordinated(client.clone(), namespace, name, "1.0.0").identity(name);
    elector.events(client).build().unwrap().start()
}

/// The resources that each account requested under each program name.
fn agents(plane: &ControlPlane) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut agents: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for event in plane.audit_events().unwrap() {
        let Some(user) = event.user.username.strip_prefix("system:serviceaccount:") else { continue };
        let name = user.split_once(':').unwrap().1.to_owned();
        let resource = event.object_ref.map_or(event.request_uri, |object| object.resource);
        agents.entry((name, event.user_agent)).or_default().insert(resource);
    }
    agents
}
