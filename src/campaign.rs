//! `hustings campaign` stands for a Lease as one replica, and prints a line for every change.
//!
//! The command itself does no work. The reader of the lines does.
//!
//! - The command prints `stopped` before it gives up the Lease. One replica's `stopped` therefore precedes the next
//!   `leading` of any other replica.
//! - After a suspension it prints `stopped` before anything else. It prints `leading` only while it leads.
//! - When the reader closes the pipe, the leader's work has ended as well, so the campaign stops gracefully.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use futures::StreamExt as _;
use hustings_client::{Elector, Leadership, Term};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::candidacy::Candidacy;
use crate::ops;
use crate::output::Output;
use crate::terminal::{print, visible};

/// The configuration of a campaign.
#[derive(Clone, Debug)]
pub struct Config {
    /// The replica that stands.
    pub candidacy: Candidacy,
    /// The format of the lines.
    pub output: Output,
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum LineKind {
    /// The campaign has begun.
    Started,
    /// A term of this replica has begun.
    Leading,
    /// The term is over, or this replica is about to give it up.
    Stopped,
    /// The holder of the Lease has changed.
    Observed,
    /// The campaign has ended gracefully.
    Exiting,
    /// The campaign has failed, or it cannot lead until a person changes something.
    Error,
}

/// One line. Every line has every field, so that readers need not check for missing fields.
#[derive(Debug, Serialize)]
struct Line<'a> {
    time: String,
    event: LineKind,
    identity: &'a str,
    holder: Option<String>,
    term: Option<u32>,
    token: Option<u64>,
    message: &'a str,
}

#[derive(Clone)]
struct LinePrinter {
    /// Writes a line that includes its line break.
    write: Arc<dyn Fn(&str) + Send + Sync>,
    output: Output,
    leadership: Leadership,
    shutdown: CancellationToken,
    /// The term whose `leading` was printed, until its `stopped` is.
    announced: Arc<Mutex<Option<Term>>>,
}

/// Stands for the Lease until SIGTERM, SIGINT or SIGHUP, or until the reader of the lines closes the pipe.
///
/// # Errors
/// Fails if the cluster configuration cannot be loaded, if only a controller may elect and the CRD is not installed, or
/// if the elector fails.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<()> {
    let Config { candidacy, output } = config;
    let shutdown = ops::stop_on_signals()?;
    stop_without_reader(shutdown.clone());
    let connection = candidacy.connect(access, "campaign", &shutdown).await?;
    let elector = candidacy.build(candidacy.builder(&connection, &shutdown))?;
    let leadership = elector.leadership();
    // A full disk must not end the term, and `stop_without_reader` notices a closed pipe.
    let write = Arc::new(|line: &str| drop(print(line)));
    let printer = LinePrinter { write, output, leadership, shutdown, announced: Arc::default() };
    printer.print(LineKind::Started, None, "");
    if let Err(unknown) = candidacy.check(&connection).await {
        printer.print(LineKind::Error, None, &unknown.to_string());
        return Err(unknown.into());
    }
    stand(elector, &printer).await
}

/// Stands until the elector has ended, and prints each change.
async fn stand(elector: Elector, printer: &LinePrinter) -> anyhow::Result<()> {
    let observing = tokio::spawn(printer.clone().observe());
    let campaign = elector.run(|term| printer.lead(term)).await;
    // The observer ends with the elector. Await it, so that no line follows the last one.
    observing.await.context("the task that prints observations died")?;
    match campaign {
        Ok(()) => printer.print(LineKind::Exiting, None, ""),
        Err(error) => {
            printer.print(LineKind::Error, None, &error.to_string());
            return Err(error.into());
        }
    }
    Ok(())
}

/// Cancels `shutdown` when standard output is a pipe and its reader has closed it.
///
/// A holder at rest prints nothing for hours, so no failed write would reveal the closed pipe. A file never closes.
fn stop_without_reader(shutdown: CancellationToken) {
    // Use a plain thread: at its end the runtime waits for blocking tasks, and this one may never end.
    std::thread::spawn(move || {
        let stdout = std::io::stdout();
        let mut reader = [PollFd::new(&stdout, PollFlags::empty())];
        let gone = loop {
            match poll(&mut reader, None) {
                Err(Errno::INTR) => {}
                polled => break polled.is_ok_and(|ready| ready > 0),
            }
        };
        if gone {
            tracing::info!("the reader closed standard output: stopping");
            shutdown.cancel();
        }
    });
}

impl LinePrinter {
    /// Prints the start and the end of one term of this replica.
    async fn lead(&self, term: Term) {
        // The term may already be over.
        if !self.leadership.is_leader() {
            return;
        }
        {
            let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
            self.print(LineKind::Leading, Some(&term), "");
            *announced = Some(term.clone());
        }
        term.cancelled().await;
        self.announce_end();
    }

    /// Prints `stopped` for the announced term, if it has ended and the line was not printed yet.
    fn announce_end(&self) {
        let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(term) = announced.take_if(|term| term.cancellation().is_cancelled()) else { return };
        let why = if self.shutdown.is_cancelled() {
            "stopping"
        } else if self.leadership.is_leader() {
            "handing over"
        } else {
            "the term has ended"
        };
        self.print(LineKind::Stopped, Some(&term), why);
    }

    /// Prints a line whenever the holder or the obstacle changes.
    async fn observe(self) {
        let mut changes = std::pin::pin!(self.leadership.changes());
        let mut last_holder = None;
        let mut obstacle = None;
        while let Some(view) = changes.next().await {
            // This task may be faster than the task that waits for the end of the term.
            self.announce_end();
            if view.ended {
                // An ended elector observes no holder. That does not mean that the Lease has none.
                return;
            }
            if view.obstacle != obstacle {
                if let Some(obstacle) = &view.obstacle {
                    self.print(LineKind::Error, None, &format!("{obstacle} (--identity)"));
                }
                obstacle = view.obstacle;
            }
            let holder = view.holder.map(|holder| holder.identity);
            if holder != last_holder {
                let text = if holder.is_some() { "" } else { "the Lease has no holder" };
                self.print_holder(LineKind::Observed, holder.clone(), None, text);
                last_holder = holder;
            }
        }
    }

    fn print(&self, event: LineKind, term: Option<&Term>, message: &str) {
        self.print_holder(event, self.leadership.holder(), term, message);
    }

    fn print_holder(&self, event: LineKind, holder: Option<String>, term: Option<&Term>, message: &str) {
        // Take the lock before the time is read, so that the lines are in the order of their times.
        let _in_order = std::io::stdout().lock();
        let line = Line {
            time: format!("{:.6}", jiff::Timestamp::now()),
            event,
            identity: self.leadership.identity(),
            holder,
            term: term.map(|term| term.number),
            token: term.map(|term| term.token),
            message,
        };
        let text = match self.output {
            Output::Json => serde_json::to_string(&line).unwrap_or_default(),
            Output::Text => visible(&line.text(self.leadership.lease())),
        };
        (self.write)(&format!("{text}\n"));
    }
}

impl Line<'_> {
    fn text(&self, lease: &str) -> String {
        let Self { time, event, identity, holder, term, token, message } = self;
        let what = match event {
            LineKind::Started => format!("{identity} stands for Lease {lease}"),
            LineKind::Leading => match (term, token) {
                (Some(term), Some(token)) => format!("{identity} leads, term {term}, token {token}"),
                _ => format!("{identity} leads"),
            },
            LineKind::Stopped => format!("{identity} no longer leads"),
            LineKind::Observed => holder.as_ref().map(|holder| format!("{holder} holds the Lease")).unwrap_or_default(),
            LineKind::Exiting => format!("{identity} has stopped"),
            LineKind::Error => format!("{identity} has failed"),
        };
        let separator = if what.is_empty() || message.is_empty() { "" } else { ": " };
        format!("{time}  {what}{separator}{message}")
    }
}

#[cfg(test)]
mod tests;
