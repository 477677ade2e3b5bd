//! Watches from outside which replica leads.
//!
//! Each worker sends a datagram every few milliseconds while it leads: it led at some instant between two readings of a
//! clock that the whole machine shares. So the tests judge by what processes did, and not by what Leases record.
//!
//! The rule that must hold: no two replicas of one group lead at the same time.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use hustings_controlplane::{NODE_ADDRESS, Namespaces};
use rustix::time::{ClockId, clock_gettime};
use tokio::net::UdpSocket;

/// Where the tests listen, inside.
const PORT: u16 = 7000;

/// A replica that has not reported for so long does not lead. Its reports are 5 ms apart, on a machine that is not busy.
const SILENT: Duration = Duration::from_millis(500);

/// More than the longest datagram.
const LONGEST: usize = 1024;

/// The reports of all groups.
#[derive(Clone, Default)]
pub struct Reports(Arc<Mutex<BTreeMap<String, Vec<Interval>>>>);

/// The time in which one process led, without a break, in nanoseconds since the machine started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The pod.
    pub replica: String,
    /// The process, and which of its terms.
    term: String,
    /// It led at the latest at this time.
    pub led_before: u64,
    /// It still led at this time.
    pub led_after: u64,
}

struct Report {
    group: String,
    interval: Interval,
}

/// The time since the machine started, which all its processes share.
pub fn since_start() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.try_into().unwrap_or(0))
}

impl Reports {
    pub(crate) fn start(namespaces: &Namespaces) -> Result<Self> {
        let reports = Self::default();
        let listener = reports.clone();
        namespaces.spawn_inside("reports", async move || {
            let socket = UdpSocket::bind((NODE_ADDRESS, PORT)).await?;
            let mut datagram = [0; LONGEST];
            loop {
                let length = socket.recv(&mut datagram).await?;
                match String::from_utf8_lossy(&datagram[..length]).parse() {
                    Ok(report) => listener.record(report),
                    Err(error) => eprintln!("the tests got a bad report: {error}"),
                }
            }
        })?;
        Ok(reports)
    }

    /// The value of `REPORTS_TO` in the environment of a worker.
    pub fn address() -> SocketAddr {
        SocketAddr::from((NODE_ADDRESS, PORT))
    }

    /// The intervals of a group so far, in the order in which they began.
    pub fn intervals(&self, group: &str) -> Vec<Interval> {
        let intervals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut intervals = intervals.get(group).cloned().unwrap_or_default();
        intervals.sort_by_key(|interval| interval.led_before);
        intervals
    }

    /// The interval of the replica that leads now.
    pub fn leading(&self, group: &str) -> Option<Interval> {
        let now = since_start();
        let latest = self.intervals(group).into_iter().max_by_key(|interval| interval.led_after)?;
        (now.saturating_sub(Duration::from_nanos(latest.led_after)) < SILENT).then_some(latest)
    }

    /// An error if two replicas of a group led at the same time.
    pub fn check(&self, group: &str) -> Result<()> {
        let intervals = self.intervals(group);
        for (number, one) in intervals.iter().enumerate() {
            for other in &intervals[number + 1..] {
                ensure!(!one.overlaps(other), "two lead at once in {group}: {one:?} and {other:?}");
            }
        }
        Ok(())
    }

    fn record(&self, report: Report) {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let intervals = groups.entry(report.group).or_default();
        let new = report.interval;
        let known = |known: &&mut Interval| known.term == new.term && known.replica == new.replica;
        match intervals.iter_mut().find(known) {
            Some(known) => {
                known.led_before = known.led_before.min(new.led_before);
                known.led_after = known.led_after.max(new.led_after);
            }
            None => intervals.push(new),
        }
    }
}

impl Interval {
    /// How long it has lasted so far.
    pub fn lasts(&self) -> Duration {
        Duration::from_nanos(self.led_after.saturating_sub(self.led_before))
    }

    /// When its process began to report, in nanoseconds since the machine started.
    pub fn process_began(&self) -> u64 {
        let process = self.term.split_once('/').map_or(&*self.term, |(process, _)| process);
        process.split_once('-').and_then(|(_, began)| began.parse().ok()).unwrap_or_default()
    }

    /// The time from the end of this interval to the beginning of the next: how long nobody led.
    pub fn gap_to(&self, next: &Self) -> Duration {
        Duration::from_nanos(next.led_before.saturating_sub(self.led_after))
    }

    /// Whether it is the same term of the same process.
    pub fn is_same(&self, other: &Self) -> bool {
        self.replica == other.replica && self.term == other.term
    }

    /// Whether both certainly led at one instant.
    fn overlaps(&self, other: &Self) -> bool {
        self.led_after > other.led_before && other.led_after > self.led_before
    }
}

impl FromStr for Report {
    type Err = anyhow::Error;

    /// `GROUP POD PROCESS TERM AFTER BEFORE`.
    fn from_str(text: &str) -> Result<Self> {
        let [group, replica, process, term, after, before] = text.split(' ').collect::<Vec<_>>()[..] else {
            bail!("{text:?} does not have six words");
        };
        let interval = Interval {
            replica: replica.to_owned(),
            term: format!("{process}/{term}"),
            led_before: before.parse().with_context(|| format!("{before:?} is no time"))?,
            led_after: after.parse().with_context(|| format!("{after:?} is no time"))?,
        };
        Ok(Self { group: group.to_owned(), interval })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail so")]

    use super::*;

    fn received(datagrams: &[&str]) -> Reports {
        let reports = Reports::default();
        for report in datagrams {
            reports.record(report.parse().unwrap());
        }
        reports
    }

    #[test]
    fn overlap_of_two_replicas_is_an_error() {
        let datagrams = ["g a 1-1 1 10 11", "g b 1-2 1 15 16", "g a 1-1 1 20 21"];
        assert!(received(&datagrams).check("g").unwrap_err().to_string().starts_with("two lead at once in g"));
        assert!(received(&datagrams[..2]).check("g").is_ok());
        assert!(received(&["g a 1-1 1 10 11", "other b 1-2 1 15 16", "g a 1-1 1 20 21"]).check("g").is_ok());
    }

    #[test]
    fn two_terms_of_one_process_are_two_intervals() {
        let reports = received(&["g a 1-1 1 10 11", "g a 1-1 1 12 13", "g b 1-2 1 15 16", "g a 1-1 2 20 21"]);
        reports.check("g").unwrap();
        let intervals = reports.intervals("g");
        assert_eq!(intervals.iter().map(|interval| interval.replica.as_str()).collect::<Vec<_>>(), ["a", "b", "a"]);
        assert_eq!(intervals[0].gap_to(&intervals[1]), Duration::from_nanos(4));
    }
}
