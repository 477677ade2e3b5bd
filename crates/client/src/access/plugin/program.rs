//! Runs a credential program, by the protocol that client-go defines.
//!
//! The rule that must hold: the program's arguments, environment and output stay between it and this process.

use std::io::ErrorKind;
use std::ops::Deref;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::config::{ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use super::Issued;
use crate::access::AccessError;
use crate::access::credentials::bearer;

/// How long a program may take.
const LIMIT: Duration = Duration::from_mins(1);

/// How long a program may take that may ask the user.
const LIMIT_INTERACTIVE: Duration = Duration::from_mins(10);

/// The most bytes of an answer.
const MAX_ANSWER: u64 = 1 << 20;

/// The process ids of the programs that run.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// Returns the process ids of the credential programs that this process runs, and delays the start of others as long as
/// the answer lives. Whoever reaps all ended children of this process must leave these to this library, which would
/// otherwise get no exit status.
pub fn credential_programs() -> impl Deref<Target = Vec<u32>> {
    running()
}

fn running() -> MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the program, and returns its credential.
pub(super) async fn run(exec: &ExecConfig) -> Result<Issued, AccessError> {
    let command = exec.command.clone().unwrap_or_default();
    let is_interactive = match exec.interactive_mode {
        Some(ExecInteractiveMode::Never) => false,
        Some(ExecInteractiveMode::IfAvailable) | None => std::io::IsTerminal::is_terminal(&std::io::stdin()),
        Some(ExecInteractiveMode::Always) if std::io::IsTerminal::is_terminal(&std::io::stdin()) => true,
        Some(ExecInteractiveMode::Always) => {
            return Err(AccessError::PluginAnswer { command, problem: "needs a terminal as standard input" });
        }
    };
    let limit = if is_interactive { LIMIT_INTERACTIVE } else { LIMIT };
    let mut program = Running::start(exec, &command, is_interactive)?;
    let (status, output) = tokio::time::timeout(limit, program.answer())
        .await
        .map_err(|_| AccessError::PluginSlow { command: command.clone(), limit })?
        .map_err(|error| AccessError::PluginStart { command: command.clone(), error: error.to_string() })?;
    // The program could not write the rest, so its status means nothing.
    if output.len() as u64 == MAX_ANSWER {
        return Err(AccessError::PluginAnswer { command, problem: "printed more than 1 MiB" });
    }
    if !status.success() {
        return Err(AccessError::PluginFailed { command, status: status.to_string() });
    }
    credential(&output, exec.api_version.as_deref()).map_err(|problem| AccessError::PluginAnswer { command, problem })
}

/// A program that runs. Dropping it kills the program, and its children unless it shares the user's terminal.
struct Running {
    child: Child,
    group: Option<Pid>,
    _listed: Listed,
}

/// An id in [`RUNNING`]. It goes after the child, so that nobody else reaps the program before the child has been killed.
struct Listed(Option<u32>);

impl Running {
    fn start(exec: &ExecConfig, command: &str, is_interactive: bool) -> Result<Self, AccessError> {
        let mut program = Command::new(command);
        program.args(exec.args.iter().flatten());
        for variable in exec.env.iter().flatten() {
            if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
                program.env(name, value);
            }
        }
        program.env("KUBERNETES_EXEC_INFO", info(exec, is_interactive).to_string());
        for name in exec.drop_env.iter().flatten() {
            program.env_remove(name);
        }
        program.stdout(Stdio::piped()).kill_on_drop(true);
        if is_interactive {
            program.stdin(Stdio::inherit()).stderr(Stdio::inherit());
        } else {
            // A group of its own: a program that is killed takes its children along.
            program.stdin(Stdio::null()).stderr(Stdio::null()).process_group(0);
        }
        let mut running = running();
        let child = program.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let install_hint = exec.install_hint.as_deref().map(printable).filter(|hint| !hint.is_empty());
                AccessError::PluginMissing { command: command.to_owned(), install_hint }
            }
            _ => AccessError::PluginStart { command: command.to_owned(), error: error.to_string() },
        })?;
        let id = child.id();
        running.extend(id);
        let group = id.and_then(|id| Pid::from_raw(id.try_into().ok()?)).filter(|_| !is_interactive);
        Ok(Self { child, group, _listed: Listed(id) })
    }

    async fn answer(&mut self) -> std::io::Result<(ExitStatus, Vec<u8>)> {
        let mut output = Vec::new();
        if let Some(stdout) = self.child.stdout.take() {
            stdout.take(MAX_ANSWER).read_to_end(&mut output).await?;
        }
        let status = self.child.wait().await?;
        // The number of the group may now be that of another one.
        self.group = None;
        Ok((status, output))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        running().retain(|id| Some(*id) != self.0);
    }
}

/// The text without control characters, which could change a terminal.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control() || *letter == '\n').collect::<String>().trim().to_owned()
}

/// What the program learns about the request.
fn info(exec: &ExecConfig, is_interactive: bool) -> Value {
    let mut spec = json!({ "interactive": is_interactive });
    if let Some(cluster) = exec.cluster.as_ref().filter(|_| exec.provide_cluster_info) {
        spec["cluster"] = cluster_info(cluster);
    }
    json!({ "apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec })
}

fn cluster_info(cluster: &ExecAuthCluster) -> Value {
    serde_json::to_value(cluster).unwrap_or_default()
}

/// Reads the program's answer.
fn credential(output: &[u8], api_version: Option<&str>) -> Result<Issued, &'static str> {
    const MALFORMED: &str = "did not print an ExecCredential";
    // kubectl accepts YAML as well, of which it reads the first document.
    let answer: Option<Value> = if output.trim_ascii_start().starts_with(b"{") {
        serde_json::from_slice(output).ok()
    } else {
        serde_saphyr::read(&mut &*output).next().and_then(Result::ok)
    };
    let answer = answer.filter(Value::is_object).ok_or(MALFORMED)?;
    // The kind may be missing, but not the version.
    if answer.get("kind").is_some_and(|kind| kind != "ExecCredential") {
        return Err(MALFORMED);
    }
    if api_version.is_some_and(|expected| answer["apiVersion"] != expected) {
        return Err("answered in another version of the protocol: correct `exec.apiVersion`");
    }
    let status = answer["status"].as_object().ok_or("printed an ExecCredential without a status")?;
    let text = |name: &str| match status.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(_) => Err(MALFORMED),
    };
    let expires = text("expirationTimestamp")?;
    let expires = expires.map(|text| time(&text).ok_or("printed an expirationTimestamp that is no time"));
    let expires = expires.transpose()?;
    let token = text("token")?
        .map(|token| bearer(&token).ok_or("printed a token with a line end or another control character"));
    let token = token.transpose()?;
    let identity = match (text("clientCertificateData")?, text("clientKeyData")?) {
        (Some(certificate), Some(key)) => Some((certificate.into_bytes(), key.into_bytes())),
        (None, None) => None,
        _ => return Err("printed only one of certificate and key"),
    };
    if token.is_none() && identity.is_none() {
        return Err("printed neither a token nor a certificate");
    }
    Ok(Issued::new(token, identity, expires))
}

/// Reads a time of RFC 3339. jiff reads more forms, but not the end of the year 9999, which means never.
fn time(text: &str) -> Option<Timestamp> {
    let at = |index| text.as_bytes().get(index);
    let is_rfc3339 = at(10) == Some(&b'T') && at(16) == Some(&b':') && !text.ends_with(']');
    let never = || text.starts_with("9999-12-3").then_some(Timestamp::MAX);
    if is_rfc3339 { text.parse().ok().or_else(never) } else { None }
}
