//! The queue of log lines between the threads that log and the one that writes to standard error.
//!
//! The rule that must hold: a thread that logs never waits for the reader of the log. The reader may be a pipe that
//! nobody reads, or a terminal after Ctrl-S. A blocked thread could hold a Lease for ever, since other threads renew it.
//! So the queue drops the lines that do not fit, counts them, and logs their number when the log moves again.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use rustix::event::{PollFd, PollFlags, poll};

/// The most bytes that wait. A controller with 10,000 Leases logs about half of that at its start.
const MOST_BYTES: usize = 4 << 20;

/// How long a process that ends waits for the reader of its log.
pub(super) const FLUSH_LIMIT: Duration = Duration::from_secs(1);

/// The lines that this process has dropped.
static DROPPED: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Returns the number of lines that this process has dropped. Clones share it.
pub fn dropped_lines() -> Counter {
    DROPPED.clone()
}

/// The queue. Clones share it.
#[derive(Clone)]
pub(super) struct LogQueue(Arc<SharedQueue>);

struct SharedQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
    dropped: Counter,
}

#[derive(Default)]
struct QueueState {
    /// The lines that are not written yet. The first one may be under way.
    lines: VecDeque<Arc<[u8]>>,
    bytes: usize,
    /// Dropped lines that no log line has reported.
    unreported: u64,
}

impl LogQueue {
    /// Starts the thread that writes to `output`. It calls `report` with the number of dropped lines when it has caught
    /// up with the queue.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub(super) fn start(
        output: impl Write + AsFd + Send + 'static,
        report: impl Fn(u64) + Send + 'static,
        dropped: Counter,
    ) -> io::Result<Self> {
        let shared = SharedQueue { state: Mutex::default(), changed: Condvar::new(), dropped };
        let queue = Self(Arc::new(shared));
        let writer = queue.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || writer.write_to(output, &report))?;
        Ok(queue)
    }

    /// The queue of this process, on standard error.
    pub(super) fn of_process(report: impl Fn(u64) + Send + 'static) -> io::Result<Self> {
        Self::start(io::stderr(), report, DROPPED.clone())
    }

    /// Adds a line, or drops it.
    pub(super) fn push(&self, line: &[u8]) {
        let mut state = self.state();
        if state.bytes.saturating_add(line.len()) > MOST_BYTES {
            self.drop_line(&mut state);
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.into());
        self.0.changed.notify_all();
    }

    /// Waits until every line is written, at most for `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        // The result does not matter: whoever reads nothing loses the rest.
        drop(self.0.changed.wait_timeout_while(self.state(), limit, |state| !state.lines.is_empty()));
    }

    fn write_to(&self, mut output: impl Write + AsFd, report: &impl Fn(u64)) {
        loop {
            let state = self.0.changed.wait_while(self.state(), |state| state.lines.is_empty());
            let line = state.unwrap_or_else(PoisonError::into_inner).lines.front().cloned();
            let Some(line) = line else { continue };
            let written = write_line(&mut output, &line);
            let mut state = self.state();
            state.lines.pop_front();
            state.bytes -= line.len();
            self.0.changed.notify_all();
            if written.is_err() {
                self.drop_line(&mut state);
            } else if state.lines.is_empty() && state.unreported > 0 {
                let lines = std::mem::take(&mut state.unreported);
                drop(state);
                report(lines);
            }
        }
    }

    fn drop_line(&self, state: &mut QueueState) {
        self.0.dropped.inc();
        state.unreported = state.unreported.saturating_add(1);
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        // A panic cannot leave the state half changed.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the whole line. Another process may have made the shared standard error non-blocking.
fn write_line(output: &mut (impl Write + AsFd), mut line: &[u8]) -> io::Result<()> {
    while !line.is_empty() {
        match output.write(line) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => line = line.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(output, PollFlags::OUT)], None)?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::mpsc;
    use std::time::Instant;

    use rustix::io::ioctl_fionbio;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn a_log_that_nobody_reads_delays_nobody_and_reports_its_loss_when_it_moves_again() {
        for is_shared_without_blocking in [false, true] {
            let (mut reader, writer) = io::pipe().unwrap();
            ioctl_fionbio(&writer, is_shared_without_blocking).unwrap();
            let (sender, reports) = mpsc::channel();
            let dropped = Counter::default();
            let queue = LogQueue::start(writer, move |lines| sender.send(lines).unwrap(), dropped.clone()).unwrap();
            let line = [&[b'x'; 1023][..], b"\n"].concat();
            for _ in 0..2 * MOST_BYTES / line.len() {
                queue.push(&line);
            }
            let lost = dropped.get();
            assert!((1000..=4096).contains(&lost), "{lost} of 8192 lines of 1 KiB");
            let began = Instant::now();
            queue.flush(Duration::from_millis(100));
            assert!(began.elapsed() < LONG, "an end waits no longer for the reader");
            assert!(reports.try_recv().is_err(), "nothing moves");

            let mut buffer = vec![0; (8192 - usize::try_from(lost).unwrap()) * line.len()];
            reader.read_exact(&mut buffer).unwrap();
            assert!(buffer.chunks(line.len()).all(|read| read == line), "each line is whole");
            assert_eq!(reports.recv_timeout(LONG), Ok(lost));
            queue.push(b"next\n");
            queue.flush(LONG);
            let mut next = [0; 5];
            reader.read_exact(&mut next).unwrap();
            assert_eq!((&next, dropped.get()), (b"next\n", lost));
            // A closed log loses each line, and reports nothing, since nothing would show the report. A process that
            // another test has just forked holds the log open until it starts its program.
            drop(reader);
            let limit = Instant::now() + LONG;
            while dropped.get() == lost && Instant::now() < limit {
                queue.push(b"lost\n");
                queue.flush(LONG);
            }
            assert_eq!(dropped.get(), lost + 1);
            assert!(reports.try_recv().is_err());
        }
    }
}
