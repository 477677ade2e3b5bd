//! Kubeconfig files of several users of a control plane, and what kubectl and Hustings make of them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::Arc,
    time::Duration,
};

use hustings_controlplane::{ClientCertificate, Shared, Tool, User, shared};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::controller::support::install_crd;
use crate::replica::hustings;

/// The user of a client certificate.
pub(super) const ALICE: &str = "alice";

/// The user of another token than the administrator's.
pub(super) const SCHEDULER: &str = "system:kube-scheduler";

/// A folder for kubeconfig files, and the credentials of several users.
pub(super) struct Stage {
    pub(super) plane: Shared,
    pub(super) namespace: String,
    pub(super) folder: tempfile::TempDir,
    pub(super) admin_token: String,
    pub(super) scheduler_token: String,
    pub(super) alice: ClientCertificate,
    kubectl: PathBuf,
    base: Value,
}

/// What a program made of a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It reached the API server as this user.
    User(String),
    /// It did not.
    Refused,
}

impl Stage {
    pub(super) async fn new(prefix: &str) -> Arc<Self> {
        let plane = shared().await.unwrap();
        // What `status` prints depends on it, and other tests install it meanwhile.
        install_crd(&plane.admin()).await;
        let namespace = plane.create_namespace(prefix).await.unwrap();
        let base = read(&plane.kubeconfig());
        let scheduler = read(&plane.kubeconfig_of(User::KubeScheduler).unwrap());
        let stage = Self {
            namespace,
            folder: tempfile::tempdir().unwrap(),
            admin_token: token(&base),
            scheduler_token: token(&scheduler),
            alice: plane.client_certificate(ALICE, &[], Duration::from_hours(1)).unwrap(),
            kubectl: plane.tool(Tool::Kubectl).await.unwrap(),
            base,
            plane,
        };
        fs::create_dir(stage.path("home")).unwrap();
        Arc::new(stage)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The administrator's kubeconfig.
    pub(super) fn base(&self) -> Value {
        self.base.clone()
    }

    /// Writes a file into the folder. One that has this content already may be in use, and stays.
    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        if fs::read(&path).is_ok_and(|former| former == text.as_bytes()) {
            return path;
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a shell script into the folder. Another process writes it: a child that this one forks meanwhile would hold
    /// the file open, and nobody could start it.
    pub(super) fn script(&self, name: &str, body: &str) -> PathBuf {
        let (path, text) = (self.path(name), format!("#!/bin/sh\n{body}\n"));
        if fs::read_to_string(&path).is_ok_and(|former| former == text) {
            return path;
        }
        let text = self.write(&format!("{name}.text"), &text);
        let status = std::process::Command::new("install").arg("-m755").args([&text, &path]).status().unwrap();
        assert!(status.success(), "{name}: {status}");
        path
    }

    /// Writes the client certificate and its key into the folder.
    pub(super) fn write_alice(&self, name: &str) -> (PathBuf, PathBuf) {
        let certificate = self.write(&format!("{name}.crt"), &self.alice.certificate);
        (certificate, self.write(&format!("{name}.key"), &self.alice.key))
    }

    /// A script that prints this status of an ExecCredential.
    pub(super) fn plugin(&self, name: &str, status: &Value) -> PathBuf {
        let answer = credential("client.authentication.k8s.io/v1", status);
        let answer = self.write(&format!("{name}.json"), &answer.to_string());
        self.script(name, &format!("cat {}", answer.display()))
    }

    /// A command whose environment contains only these variables.
    fn command(&self, mut command: Command, environment: &[(String, String)]) -> Command {
        let path = std::env::var("PATH").unwrap();
        command.env_clear().env("PATH", path).env("HOME", self.path("home")).current_dir(self.folder.path());
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// The output of `hustings` with these arguments. It is killed after a while.
    pub(super) async fn run(&self, arguments: &[&str], environment: &[(String, String)]) -> Output {
        self.run_for(Duration::from_mins(1), arguments, environment).await
    }

    /// The output of `hustings` with these arguments. It is killed after `limit`.
    pub(super) async fn run_for(
        &self,
        limit: Duration,
        arguments: &[&str],
        environment: &[(String, String)],
    ) -> Output {
        let mut command = Command::from(hustings());
        command.args(arguments);
        let mut command = self.command(command, environment);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let killer = child.id().and_then(|id| Pid::from_raw(id.try_into().unwrap()));
        let output = child.wait_with_output();
        tokio::pin!(output);
        if let Ok(output) = tokio::time::timeout(limit, &mut output).await {
            return output.unwrap();
        }
        kill_process(killer.unwrap(), Signal::KILL).unwrap();
        output.await.unwrap()
    }

    /// As whom Hustings reaches the API server, and what it says.
    pub(super) async fn hustings(&self, flags: &[String], environment: &[(String, String)]) -> (Outcome, String) {
        let mut arguments = vec!["status", "work", "--namespace", &self.namespace];
        arguments.extend(flags.iter().map(String::as_str));
        let output = self.run(&arguments, environment).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let forbidden = said.split_once("User \"").and_then(|(_, rest)| rest.split_once("\" cannot"));
        let outcome = match forbidden {
            // An anonymous user may not ask kubectl's question either.
            Some(("system:anonymous", _)) => Outcome::Refused,
            Some((user, _)) => Outcome::User(user.to_owned()),
            // Only the administrator may know that.
            None if ["does not exist in namespace", "CRD is not installed"].iter().any(|text| said.contains(text)) => {
                Outcome::User("admin".to_owned())
            }
            None => Outcome::Refused,
        };
        (outcome, said)
    }

    /// As whom kubectl reaches the API server, and what it says.
    pub(super) async fn kubectl(&self, flags: &[String], environment: &[(String, String)]) -> (Outcome, String) {
        let mut command = Command::new(&self.kubectl);
        command.args(flags);
        command.args(["auth", "whoami", "-o=jsonpath={.status.userInfo.username}", "--request-timeout=20s"]);
        let output = self.command(command, environment).output();
        let output = tokio::time::timeout(Duration::from_mins(1), output).await.expect("kubectl ends").unwrap();
        let user = String::from_utf8_lossy(&output.stdout).into_owned();
        let outcome = if output.status.success() { Outcome::User(user) } else { Outcome::Refused };
        (outcome, String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// An answer of a credential program.
pub(super) fn credential(api_version: &str, status: &Value) -> Value {
    json!({ "apiVersion": api_version, "kind": "ExecCredential", "status": status })
}

pub(super) fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn token(kubeconfig: &Value) -> String {
    kubeconfig["users"][0]["user"]["token"].as_str().unwrap().to_owned()
}
