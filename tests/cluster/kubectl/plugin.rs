//! `kubectl hustings`: the binary as a plugin of kubectl, and its manifest for krew.

use serde_json::Value;

use super::{Programs, succeed};
use crate::acts::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_finds_the_plugin_and_runs_its_commands_in_the_namespace_of_the_context() {
    let scene = Scene::new("kubectl-plugin", &[("web-0", "1.31.0")]).await;
    let programs = Programs::new(&scene).await;
    let listed = succeed(&programs.kubectl(&scene, &["plugin", "list", "--name-only"]).await);
    assert!(listed.lines().any(|line| line == "kubectl-hustings"), "{listed}");
    let status = succeed(&programs.kubectl(&scene, &["hustings", "status", "web"]).await);
    assert!(status.starts_with(&format!("Lease web in namespace {}: held\n", scene.world.namespace)), "{status}");

    // Help and errors name commands of kubectl.
    for (arguments, usage) in [
        (&["hustings", "--help"][..], "Usage: kubectl hustings [OPTIONS] <COMMAND>"),
        (&["hustings", "transfer", "--help"], "Usage: kubectl hustings transfer [OPTIONS] <LEASE>"),
    ] {
        let help = succeed(&programs.kubectl(&scene, arguments).await);
        assert!(help.contains(usage), "{help}");
    }
    for (arguments, code, hint) in [
        (
            &["hustings", "status", "nothing"][..],
            2,
            "hint: `kubectl hustings status --all-namespaces` shows every Lease",
        ),
        (
            &["hustings", "pause", "A"],
            2,
            "hint: `kubectl hustings help` and `kubectl hustings COMMAND --help` describe",
        ),
        (&["hustings", "stats"], 2, "Usage: kubectl hustings [OPTIONS] <COMMAND>"),
    ] {
        let output = programs.kubectl(&scene, arguments).await;
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(hint), "{hint} is not in\n{stderr}");
    }
}

#[test]
fn the_manifest_for_krew_has_the_version_of_the_workspace_and_installs_the_plugin() {
    let manifest: Value = serde_yaml::from_str(include_str!("../../../deploy/krew/hustings.yaml")).unwrap();
    assert_eq!(
        (&manifest["apiVersion"], &manifest["kind"]),
        (&"krew.googlecontainertools.github.com/v1alpha2".into(), &"Plugin".into())
    );
    let version = env!("CARGO_PKG_VERSION");
    let spec = &manifest["spec"];
    assert_eq!((&manifest["metadata"]["name"], &spec["version"]), (&"hustings".into(), &format!("v{version}").into()));
    // krew's own rules for its index.
    assert!(spec["shortDescription"].as_str().is_some_and(|text| text.len() <= 50 && !text.ends_with('.')), "{spec}");
    let platforms = spec["platforms"].as_array().unwrap();
    let selected = platforms.iter().map(|platform| platform["selector"]["matchLabels"].clone());
    let expected = ["amd64", "arm64"].map(|arch| serde_json::json!({ "os": "linux", "arch": arch }));
    assert_eq!(selected.collect::<Vec<_>>(), expected);
    for platform in platforms {
        let arch = platform["selector"]["matchLabels"]["arch"].as_str().unwrap();
        let uri = platform["uri"].as_str().unwrap();
        assert!(
            uri.starts_with("https://") && uri.ends_with(&format!("/hustings-{version}-linux-{arch}.tar.gz")),
            "{uri}"
        );
        let sum = platform["sha256"].as_str().unwrap();
        assert!(sum.len() == 64 && sum.chars().all(|digit| digit.is_ascii_hexdigit()), "{sum}");
        assert_eq!(platform["bin"], "kubectl-hustings");
        let files = platform["files"].as_array().unwrap();
        assert!(files.iter().any(|file| file["to"] == "kubectl-hustings"), "{files:?}");
        assert!(files.iter().any(|file| file["from"] == "LICENSE"), "krew requires the licence: {files:?}");
    }
}
