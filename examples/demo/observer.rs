//! Two independent observers: a watch on the Lease, and the lines that the processes print.
//!
//! A term is an interval in which a process reported that it leads. A killed process reports no end. Its
//! interval ends when its death is known, later than its last instant, so the check for two leaders errs on the strict
//! side.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use tokio::sync::watch;

/// How often the observer reads a process's log.
const LINE_PERIOD: Duration = Duration::from_millis(10);

/// The reports of both observers so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The holder that the Lease names, if its term has begun.
    pub(crate) holder: Option<String>,
    /// Everything worth a line in the timeline, in the order of arrival.
    pub(crate) timeline: Vec<Entry>,
    /// The terms, by the processes' own reports.
    pub(crate) terms: Vec<Term>,
}

/// One line of the timeline.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) at: Instant,
    pub(crate) actor: String,
    pub(crate) what: String,
}

/// One process's time as leader.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) name: String,
    pub(crate) from: Timestamp,
    pub(crate) until: Option<Timestamp>,
}

/// Collects the reports of both.
#[derive(Clone)]
pub(crate) struct Observer {
    facts: Arc<watch::Sender<Facts>>,
}

/// A line of `hustings campaign -o json`.
#[derive(Deserialize)]
struct Line {
    time: Timestamp,
    event: String,
    #[serde(default)]
    message: Option<String>,
}

impl Observer {
    pub(crate) fn new() -> Self {
        Self { facts: Arc::new(watch::Sender::new(Facts::default())) }
    }

    /// Watches a Lease until the program ends.
    pub(crate) fn watch_lease(&self, client: Client, namespace: &str, lease: &str) {
        let api: Api<Lease> = Api::namespaced(client, namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={lease}"));
        let facts = Arc::clone(&self.facts);
        tokio::spawn(async move {
            let mut events = std::pin::pin!(watcher(api, config));
            // The watcher retries after an error.
            loop {
                match events.try_next().await {
                    Ok(Some(Event::Apply(lease) | Event::InitApply(lease))) => {
                        facts.send_modify(|facts| facts.see_lease(&lease));
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => return,
                    Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                }
            }
        });
    }

    /// Reads the lines of a process until the program ends.
    pub(crate) fn read_lines(&self, name: &str, log: PathBuf) {
        let (name, facts) = (name.to_owned(), Arc::clone(&self.facts));
        tokio::spawn(async move {
            let mut read = 0;
            loop {
                let text = std::fs::read(&log).unwrap_or_default();
                // Only whole lines count, and no line twice.
                let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
                for line in text.get(read..end).unwrap_or_default().split(|byte| *byte == b'\n') {
                    if let Ok(line) = serde_json::from_slice::<Line>(line) {
                        facts.send_modify(|facts| facts.record(&name, &line));
                    }
                }
                read = end.max(read);
                tokio::time::sleep(LINE_PERIOD).await;
            }
        });
    }

    /// A process was killed, and its death is known now.
    pub(crate) fn killed(&self, name: &str) {
        self.facts.send_modify(|facts| facts.end(name, Timestamp::now()));
    }

    /// Everything so far.
    pub(crate) fn facts(&self) -> Facts {
        self.facts.borrow().clone()
    }

    /// Changes of the facts.
    pub(crate) fn changes(&self) -> watch::Receiver<Facts> {
        self.facts.subscribe()
    }

    /// Waits until both observers agree on one leader, whose name satisfies `accepts`.
    pub(crate) async fn agree(&self, limit: Duration, accepts: impl Fn(&str) -> bool) -> Result<String> {
        let mut changes = self.changes();
        let agreed = changes.wait_for(|facts| facts.agreed_leader().is_some_and(&accepts));
        if let Ok(facts) = tokio::time::timeout(limit, agreed).await {
            return Ok(facts?.agreed_leader().context("agreed a moment ago")?.to_owned());
        }
        let facts = self.facts();
        let saying: Vec<_> = facts.leading().collect();
        bail!("the Lease names {:?} and {saying:?} say that they lead, after {limit:?}", facts.holder)
    }
}

impl Facts {
    /// The facts after these lines of processes, each with the name of its process.
    #[cfg(test)]
    pub(crate) fn after(lines: &[(&str, String)]) -> Self {
        let mut facts = Self::default();
        for (name, line) in lines {
            facts.record(name, &serde_json::from_str(line).unwrap());
        }
        facts
    }

    /// The leader on whom both observers agree.
    pub(crate) fn agreed_leader(&self) -> Option<&str> {
        let mut leading = self.leading();
        let only = leading.next().filter(|_| leading.next().is_none())?;
        (self.holder.as_deref() == Some(only)).then_some(only)
    }

    /// How long no process led before the last leader's term.
    pub(crate) fn last_gap(&self) -> Option<Duration> {
        let [.., former, last] = self.terms.as_slice() else { return None };
        Duration::try_from(last.from.duration_since(former.until?)).ok()
    }

    /// Pairs of processes that led at the same instant.
    pub(crate) fn double_leaders(&self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for (index, one) in self.terms.iter().enumerate() {
            for other in &self.terms[index + 1..] {
                let ends_before = |a: &Term, b: &Term| a.until.is_some_and(|until| until <= b.from);
                if !ends_before(one, other) && !ends_before(other, one) {
                    pairs.push((one.name.clone(), other.name.clone()));
                }
            }
        }
        pairs
    }

    fn leading(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().filter(|term| term.until.is_none()).map(|term| term.name.as_str())
    }

    fn see_lease(&mut self, lease: &Lease) {
        let annotations: &BTreeMap<String, String> = lease.annotations();
        let named = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone()).filter(|name| !name.is_empty());
        let open = annotations.get("hustings.io/session").is_some_and(|mark| mark == "open");
        let before = self.holder.clone();
        let text = match (&named, open) {
            (Some(name), true) => format!("is granted to {name}"),
            (Some(name), false) if before.as_ref() != Some(name) => format!("is held by {name}"),
            (Some(_), false) => match annotations.get("hustings.io/preferred-holder") {
                Some(preferred) => format!("prefers {preferred}"),
                None => return,
            },
            (None, _) => "has no holder".to_owned(),
        };
        self.holder = named.filter(|_| !open);
        if self.timeline.iter().rev().find(|entry| entry.actor == "Lease").is_none_or(|entry| entry.what != text) {
            self.note("Lease", text);
        }
    }

    fn record(&mut self, name: &str, line: &Line) {
        let about =
            line.message.as_deref().filter(|text| !text.is_empty()).map(|text| format!(": {text}")).unwrap_or_default();
        match line.event.as_str() {
            "leading" => {
                self.terms.push(Term { name: name.to_owned(), from: line.time, until: None });
                self.note(name, "leads".to_owned());
            }
            "stopped" => {
                self.end(name, line.time);
                self.note(name, format!("no longer leads{about}"));
            }
            "exiting" => self.note(name, "exits".to_owned()),
            "started" => self.note(name, "stands".to_owned()),
            "error" => self.note(name, format!("reports an error{about}")),
            // The holder that a process observes is not its own report.
            _ => {}
        }
    }

    fn note(&mut self, actor: &str, what: String) {
        self.timeline.push(Entry { at: Instant::now(), actor: actor.to_owned(), what });
    }

    fn end(&mut self, name: &str, at: Timestamp) {
        for term in self.terms.iter_mut().filter(|term| term.name == name && term.until.is_none()) {
            term.until = Some(at);
        }
    }
}
