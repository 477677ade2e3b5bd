//! A real Prometheus with the rules of the chart.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use hustings_controlplane::{ControlPlane, Process, free_port};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::controller::support::eventually;
use crate::http::ask;

/// A server whose targets a file lists.
pub(super) struct Prometheus {
    _process: Process,
    address: SocketAddr,
    targets: PathBuf,
}

/// Whether the programs are there.
pub(super) fn installed() -> Result<(), String> {
    for program in ["prometheus", "promtool"] {
        Command::new(program)
            .arg("--version")
            .output()
            .map_err(|error| format!("cannot run {program} ({error}): install the package `prometheus`"))?;
    }
    Ok(())
}

impl Prometheus {
    /// Starts a server with these rules, and without targets.
    pub(super) fn start(plane: &ControlPlane, rules: &Value) -> Self {
        let folder = plane.folder().join("prometheus");
        fs::create_dir(&folder).unwrap();
        let (rule_file, targets, config) =
            (folder.join("rules.json"), folder.join("targets.json"), folder.join("config.json"));
        // JSON is YAML.
        fs::write(&rule_file, rules.to_string()).unwrap();
        fs::write(&targets, "[]").unwrap();
        let text = json!({
            "global": { "scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s" },
            "rule_files": [rule_file],
            "scrape_configs": [{
                "job_name": "hustings",
                "honor_labels": true,
                "file_sd_configs": [{ "files": [targets], "refresh_interval": "1s" }],
            }],
        });
        fs::write(&config, text.to_string()).unwrap();
        promtool(&["check", "config"], &config);
        promtool(&["check", "rules"], &rule_file);
        let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"));
        Self { _process: plane.spawn("prometheus", command).unwrap(), address, targets }
    }

    /// Scrapes these controllers and no others. The operator of Prometheus adds the namespace of the Pods.
    pub(super) fn scrape(&self, controllers: &[&str]) {
        let targets = json!([{ "targets": controllers, "labels": { "namespace": "hustings-system" } }]);
        let partial = self.targets.with_extension("partial");
        fs::write(&partial, targets.to_string()).unwrap();
        fs::rename(&partial, &self.targets).unwrap();
    }

    /// Waits until a query returns a sample.
    pub(super) async fn until_it_has(&self, query: &str) {
        let path = format!("/api/v1/query?query={}", encoded(query));
        eventually(query, async || {
            let answer = self.get(&path).await?;
            let found = answer["data"]["result"].as_array().is_some_and(|samples| !samples.is_empty());
            if found { Ok(()) } else { Err(answer.to_string()) }
        })
        .await;
    }

    /// Waits until an alert fires once for this namespace and Lease. Returns its summary.
    pub(super) async fn fires(&self, name: &str, lease: Option<(&str, &str)>) -> String {
        eventually(&format!("{name} fires"), async || {
            let mut alerts = self.alerts(name).await?;
            alerts.retain(|alert| {
                let labels = &alert["labels"];
                lease.is_none_or(|(namespace, lease)| labels["namespace"] == namespace && labels["lease"] == lease)
            });
            let [alert] = alerts.as_slice() else { return Err(format!("{alerts:?}")) };
            let summary = alert["annotations"]["summary"].as_str().unwrap().to_owned();
            if alert["state"] == "firing" { Ok(summary) } else { Err(alert.to_string()) }
        })
        .await
    }

    /// Waits until an alert is over.
    pub(super) async fn resolves(&self, name: &str) {
        eventually(&format!("{name} resolves"), async || {
            let alerts = self.alerts(name).await?;
            if alerts.is_empty() { Ok(()) } else { Err(format!("{alerts:?}")) }
        })
        .await;
    }

    async fn alerts(&self, name: &str) -> Result<Vec<Value>, String> {
        let answer = self.get("/api/v1/alerts").await?;
        let alerts = answer["data"]["alerts"].as_array().ok_or_else(|| answer.to_string())?;
        Ok(alerts.iter().filter(|alert| alert["labels"]["alertname"] == name).cloned().collect())
    }

    async fn get(&self, path: &str) -> Result<Value, String> {
        // It takes a moment until it listens.
        drop(TcpStream::connect(self.address).await.map_err(|error| error.to_string())?);
        let answer = ask(self.address, "GET", path).await;
        serde_json::from_str(&answer.body).map_err(|error| format!("{error}: {answer:?}"))
    }
}

fn promtool(arguments: &[&str], file: &Path) {
    let output = Command::new("promtool").args(arguments).arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A text as a part of a query string.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |text, byte| text + &format!("%{byte:02X}"))
}
