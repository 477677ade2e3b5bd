//! The lines of a campaign, and the thread that writes them.
//!
//! The rule that must hold: a reader that reads nothing blocks this thread alone. The thread is the heartbeat of the
//! campaign, since the reader of the lines does the work. While it is blocked, or while the pipe has no room for a line, the
//! elector does not renew, and the Lease expires. So a line is built just before it is written, and is true then.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use hustings_client::{Heartbeat, Leadership, Term};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::base::output::Output;
use crate::base::terminal::{print, visible};

/// How often the thread beats while there is nothing to write.
const BEAT_PERIOD: Duration = Duration::from_secs(1);

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum LineKind {
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
pub(super) struct Line<'a> {
    pub(super) time: String,
    pub(super) event: LineKind,
    pub(super) identity: &'a str,
    pub(super) holder: Option<String>,
    pub(super) term: Option<u32>,
    pub(super) token: Option<u64>,
    pub(super) message: &'a str,
}

/// What to report in the next line.
pub(super) enum CampaignReport {
    /// The term leads, if it still does then.
    Leading(Term),
    /// The end of the announced term, which precedes every other line anyway.
    End,
    /// The holder has changed to this one.
    Observed(Option<String>),
    /// An event without a term.
    Event(LineKind, String),
}

/// A report, and whom to inform when it is written.
pub(super) type Job = (CampaignReport, oneshot::Sender<()>);

/// Builds the lines of one campaign.
#[derive(Clone)]
pub(super) struct LineBuilder {
    pub(super) output: Output,
    pub(super) leadership: Leadership,
    pub(super) shutdown: CancellationToken,
    /// The term whose `leading` was written, until its `stopped` is.
    pub(super) announced: Arc<Mutex<Option<Term>>>,
}

/// Starts the thread. It ends with the returned sender.
///
/// # Errors
/// Fails if the thread cannot be started.
pub(super) fn start(builder: LineBuilder, heartbeat: Heartbeat) -> std::io::Result<mpsc::Sender<Job>> {
    let (jobs, waiting) = mpsc::channel::<Job>();
    thread::Builder::new().name("lines".to_owned()).spawn(move || {
        loop {
            match waiting.recv_timeout(BEAT_PERIOD) {
                Ok((report, written)) => {
                    // A full disk must not end the term, and the campaign notices a closed pipe by other means.
                    let _ = print(&builder.lines(report));
                    let _ = written.send(());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if takes_more() {
                heartbeat.beat();
            }
        }
    })?;
    Ok(jobs)
}

/// Whether standard output takes another line. A pipe is full if its reader does not read.
fn takes_more() -> bool {
    let stdout = std::io::stdout();
    poll(&mut [PollFd::new(&stdout, PollFlags::OUT)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(0)
}

impl LineBuilder {
    /// The lines of a report, each with its line break. The end of the announced term comes first.
    pub(super) fn lines(&self, report: CampaignReport) -> String {
        let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = String::new();
        if let Some(term) = announced.take_if(|term| term.cancellation().is_cancelled()) {
            let why = if self.shutdown.is_cancelled() {
                "stopping"
            } else if self.leadership.is_leader() {
                "handing over"
            } else {
                "the term has ended"
            };
            lines += &self.line(LineKind::Stopped, self.leadership.holder(), Some(&term), why);
        }
        match report {
            CampaignReport::Leading(term) => {
                // The term may already be over.
                if self.leadership.is_leader() && !term.cancellation().is_cancelled() {
                    lines += &self.line(LineKind::Leading, self.leadership.holder(), Some(&term), "");
                    *announced = Some(term);
                }
            }
            CampaignReport::End => {}
            CampaignReport::Observed(holder) => {
                let text = if holder.is_some() { "" } else { "the Lease has no holder" };
                lines += &self.line(LineKind::Observed, holder, None, text);
            }
            CampaignReport::Event(kind, message) => lines += &self.line(kind, self.leadership.holder(), None, &message),
        }
        lines
    }

    fn line(&self, event: LineKind, holder: Option<String>, term: Option<&Term>, message: &str) -> String {
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
        text + "\n"
    }
}

impl Line<'_> {
    pub(super) fn text(&self, lease: &str) -> String {
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
