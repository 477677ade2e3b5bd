//! `hustings campaign` stands for a Lease as one replica, and prints a line for every change.
//!
//! The command itself does no work. The reader of the lines does.
//!
//! - The command prints `stopped` before it gives up the Lease. One replica's `stopped` therefore precedes the next
//!   `leading` of any other replica.
//! - After a suspension it prints `stopped` before anything else. It prints `leading` only while it leads.
//! - When the reader closes the pipe, the leader's work has ended as well, so the campaign stops gracefully.
//! - When the reader reads nothing, nobody knows what it does. The campaign then lets the Lease expire.

mod lines;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use hustings_client::{Elector, Heartbeat, Leadership, Term};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::lines::{CampaignReport, Job, LineBuilder, LineKind};
use crate::base::access::Access;
use crate::base::output::Output;
use crate::base::signals;
use crate::stand::candidacy::{self, Candidacy};

/// The configuration of a campaign.
#[derive(Clone, Debug)]
pub struct Config {
    /// The replica that stands.
    pub candidacy: Candidacy,
    /// The format of the lines.
    pub output: Output,
}

/// How long the last lines may take.
const LAST_LINES_LIMIT: Duration = Duration::from_secs(5);

/// Reports what happens to the thread that writes the lines.
#[derive(Clone)]
struct LinePrinter {
    write: Arc<dyn Fn(Job) + Send + Sync>,
    leadership: Leadership,
}

/// Stands for the Lease until SIGTERM, SIGINT or SIGHUP, or until the reader of the lines closes the pipe.
///
/// # Errors
/// Fails if the cluster configuration cannot be loaded, if only a controller may elect and the CRD is not installed, if
/// the elector fails, or if nobody reads the last lines.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<()> {
    let Config { candidacy, output } = config;
    let shutdown = signals::stop_on_signals()?;
    stop_without_reader(shutdown.clone());
    let connection = candidacy.connect(access, "campaign", &shutdown).await?;
    let heartbeat = Heartbeat::new();
    let elector = candidacy::build(candidacy.builder(&connection, &heartbeat, &shutdown)?)?;
    let leadership = elector.leadership();
    let (stopped, shutdown) = (shutdown.clone(), shutdown);
    let builder = LineBuilder { output, leadership: leadership.clone(), shutdown, announced: Arc::default() };
    let jobs = lines::start(builder, heartbeat).context("cannot start the thread that writes the lines")?;
    let write = Arc::new(move |job| drop(jobs.send(job)));
    let printer = LinePrinter { write, leadership };
    tokio::select! {
        () = printer.event(LineKind::Started, String::new()) => {}
        () = stopped.cancelled() => {
            // Nobody may read the lines. If somebody does, the last line follows the first one.
            drop(timeout(LAST_LINES_LIMIT, printer.event(LineKind::Exiting, String::new())).await);
            return Ok(());
        }
    }
    if let Err(unknown) = candidacy.check(&connection).await {
        printer.event(LineKind::Error, unknown.to_string()).await;
        return Err(unknown.into());
    }
    stand(elector, &printer).await
}

/// Stands until the elector has ended, and prints each change.
async fn stand(elector: Elector, printer: &LinePrinter) -> anyhow::Result<()> {
    let observing = tokio::spawn(printer.clone().observe());
    let campaign = elector.run(|term| printer.lead(term)).await;
    let last_lines = async {
        // The observer ends with the elector. Await it, so that no line follows the last one.
        observing.await.context("the task that prints observations died")?;
        match &campaign {
            Ok(()) => printer.event(LineKind::Exiting, String::new()).await,
            Err(error) => printer.event(LineKind::Error, error.to_string()).await,
        }
        anyhow::Ok(())
    };
    timeout(LAST_LINES_LIMIT, last_lines).await.context("nobody read the last lines on standard output")??;
    Ok(campaign?)
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
        self.print(CampaignReport::Leading(term.clone())).await;
        term.cancelled().await;
        // A term that is lost needs no answer of the reader, which may read nothing.
        let lost = async {
            let mut validity = std::pin::pin!(self.leadership.validity());
            while validity.next().await.flatten().is_some() {}
        };
        tokio::select! {
            biased;
            () = self.print(CampaignReport::End) => {}
            () = lost => {}
        }
    }

    /// Prints a line whenever the holder or the obstacle changes.
    async fn observe(self) {
        let mut changes = std::pin::pin!(self.leadership.changes());
        let mut last_holder = None;
        let mut obstacle = None;
        while let Some(view) = changes.next().await {
            // This task may be faster than the task that waits for the end of the term.
            self.print(CampaignReport::End).await;
            if view.ended {
                // An ended elector observes no holder. That does not mean that the Lease has none.
                return;
            }
            if view.obstacle != obstacle {
                if let Some(obstacle) = &view.obstacle {
                    self.event(LineKind::Error, format!("{obstacle} (--identity)")).await;
                }
                obstacle = view.obstacle;
            }
            let holder = view.holder.map(|holder| holder.identity);
            if holder != last_holder {
                self.print(CampaignReport::Observed(holder.clone())).await;
                last_holder = holder;
            }
        }
    }

    async fn event(&self, kind: LineKind, message: String) {
        self.print(CampaignReport::Event(kind, message)).await;
    }

    /// Returns when the report is written. The order of the calls is the order of the lines.
    async fn print(&self, report: CampaignReport) {
        let (written, is_written) = oneshot::channel();
        (self.write)((report, written));
        // The thread ends only with the campaign.
        let _ = is_written.await;
    }
}

#[cfg(test)]
mod tests;
