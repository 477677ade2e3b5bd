//! `hustings campaign`: one replica that stands for a Lease, in lines that another program can read.
//!
//! It holds the Lease and does nothing with it: the caller watches the lines. A term's `stopped` comes before the Lease is
//! given up, so that of two replicas' lines the one's `stopped` always precedes the other's `leading`. A process that was
//! suspended meanwhile says `stopped` before anything else, and `leading` only while it leads. Where nobody reads the
//! lines any longer, nobody does the work of a leader either: the campaign then ends in order.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use futures::StreamExt as _;
use hustings_client::{Leadership, Term};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::candidacy::Candidacy;
use crate::cli::{GlobalFlags, print, visible};
use crate::ops;

/// How to stand, and for what.
#[derive(Clone, Debug)]
pub struct Config {
    /// For what it stands.
    pub candidacy: Candidacy,
    /// In what form lines are printed.
    pub output: Output,
}

/// The form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Text,
    /// For programs: one object a line.
    Json,
}

/// What a line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Event {
    /// The campaign has begun.
    Started,
    /// A term of this replica has begun.
    Leading,
    /// It is over, or about to be given up.
    Stopped,
    /// Another holder than before is seen.
    Observed,
    /// The campaign has ended in order.
    Exiting,
    /// It has ended otherwise, or cannot lead until a person changes something.
    Error,
}

/// One line. Every field is in every line, so that a reader need not ask which there are.
#[derive(Debug, Serialize)]
struct Line<'a> {
    time: String,
    event: Event,
    identity: &'a str,
    holder: Option<String>,
    term: Option<u32>,
    token: Option<u64>,
    message: &'a str,
}

#[derive(Clone)]
struct Printer {
    output: Output,
    leadership: Leadership,
    shutdown: CancellationToken,
    /// The term of which the beginning is announced and the end is not.
    announced: Arc<Mutex<Option<Term>>>,
}

/// Campaigns until a signal tells it to stop, or until whoever reads the lines has gone away.
pub async fn run(flags: &GlobalFlags, config: Config) -> anyhow::Result<()> {
    let Config { candidacy, output } = config;
    let shutdown = ops::stop_on_signals()?;
    stop_without_reader(shutdown.clone());
    let stage = candidacy.stage(flags, "campaign").await?;
    let elector = candidacy.elector(&stage, &shutdown)?;
    let leadership = elector.leadership();
    let printer = Printer { output, leadership, shutdown: shutdown.clone(), announced: Arc::default() };
    printer.print(Event::Started, None, "");
    if let Err(unknown) = candidacy.check(&stage).await {
        printer.print(Event::Error, None, &unknown.to_string());
        return Err(unknown.into());
    }
    let observing = tokio::spawn(printer.clone().observe());
    let campaign = elector.run(|term| printer.lead(term)).await;
    // It ends with the elector, so that nothing is announced after the end.
    observing.await.context("the lines ended early")?;
    match campaign {
        Ok(()) => printer.print(Event::Exiting, None, ""),
        Err(error) => {
            printer.print(Event::Error, None, &error.to_string());
            return Err(error.into());
        }
    }
    Ok(())
}

/// Cancels `shutdown` when the pipe that standard output is has no reader left. A holder at rest prints nothing for
/// hours, so that it would not learn of that by writing. Files have no such end.
fn stop_without_reader(shutdown: CancellationToken) {
    // A thread of its own, which the runtime does not wait for: mostly nothing ever happens here.
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
            tracing::info!("nobody reads the lines any longer, stopping");
            shutdown.cancel();
        }
    });
}

impl Printer {
    /// One term of this replica.
    async fn lead(&self, term: Term) {
        // It may be over before it could be announced.
        if !self.leadership.is_leader() {
            return;
        }
        {
            let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
            self.print(Event::Leading, Some(&term), "");
            *announced = Some(term.clone());
        }
        term.cancelled().await;
        self.announce_end();
    }

    /// Tells that the term is over that was last announced, once.
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
        self.print(Event::Stopped, Some(&term), why);
    }

    /// Tells whom the Lease names, whenever that changes.
    async fn observe(self) {
        let mut changes = std::pin::pin!(self.leadership.changes());
        let mut former = None;
        let mut obstacle = None;
        while let Some(view) = changes.next().await {
            // Whoever waits for it may be slower.
            self.announce_end();
            if view.ended {
                // It knows of no holder, which does not say that there is none.
                return;
            }
            if view.obstacle != obstacle {
                if let Some(obstacle) = &view.obstacle {
                    self.print(Event::Error, None, &format!("{obstacle} (--identity)"));
                }
                obstacle = view.obstacle;
            }
            let holder = view.holder.map(|holder| holder.identity);
            if holder != former {
                let text = if holder.is_some() { "" } else { "nobody holds the Lease" };
                self.print_holder(Event::Observed, holder.clone(), None, text);
                former = holder;
            }
        }
    }

    fn print(&self, event: Event, term: Option<&Term>, message: &str) {
        self.print_holder(event, self.leadership.holder(), term, message);
    }

    fn print_holder(&self, event: Event, holder: Option<String>, term: Option<&Term>, message: &str) {
        // The lock comes before the time, so that lines are in the order of their times.
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
        // A full disk is no reason to give up a Lease; a reader that has gone away is noticed elsewhere.
        let _ = print(&format!("{text}\n"));
    }
}

impl Line<'_> {
    fn text(&self, lease: &str) -> String {
        let Self { time, event, identity, holder, term, token, message } = self;
        let what = match event {
            Event::Started => format!("{identity} stands for Lease {lease}"),
            Event::Leading => match (term, token) {
                (Some(term), Some(token)) => format!("{identity} leads, term {term}, token {token}"),
                _ => format!("{identity} leads"),
            },
            Event::Stopped => format!("{identity} leads no more"),
            Event::Observed => holder.as_ref().map(|holder| format!("{holder} holds the Lease")).unwrap_or_default(),
            Event::Exiting => format!("{identity} has left"),
            Event::Error => format!("{identity} has failed"),
        };
        let separator = if what.is_empty() || message.is_empty() { "" } else { ": " };
        format!("{time}  {what}{separator}{message}")
    }
}
