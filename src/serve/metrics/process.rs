//! The resource usage of the process. The names are those that Prometheus' client libraries share, so that common
//! dashboards show it.

use std::fmt;

use procfs::ProcResult;
use procfs::process::{LimitValue, Process};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// Adds the resource usage of this process to `registry`.
pub(super) fn register(registry: &mut Registry) {
    registry.register_collector(Box::new(ProcessCollector));
}

/// Reads `/proc/self` at each scrape.
#[derive(Debug)]
struct ProcessCollector;

/// The resource usage of this process.
struct ResourceUsage {
    cpu_seconds: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    open_fds: usize,
    /// `None` if unlimited.
    max_fds: Option<u64>,
    /// The start time in seconds since 1970, by the wall clock.
    started_seconds: f64,
}

impl ResourceUsage {
    fn read() -> ProcResult<Self> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let max_fds = match process.limits()?.max_open_files.soft_limit {
            LimitValue::Value(limit) => Some(limit),
            LimitValue::Unlimited => None,
        };
        let boot_time = seconds(procfs::boot_time_secs()?, 1);
        let ticks_per_second = procfs::ticks_per_second();
        Ok(Self {
            cpu_seconds: seconds(stat.utime.saturating_add(stat.stime), ticks_per_second),
            resident_bytes: stat.rss.saturating_mul(procfs::page_size()),
            virtual_bytes: stat.vsize,
            open_fds: process.fd_count()?,
            max_fds,
            started_seconds: boot_time + seconds(stat.starttime, ticks_per_second),
        })
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let usage = match ResourceUsage::read() {
            Ok(usage) => usage,
            Err(error) => {
                // An error here would fail the whole scrape and lose all other metrics.
                tracing::debug!(%error, "cannot read /proc/self");
                return Ok(());
            }
        };
        let mut show = |name, unit: Option<Unit>, help, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, unit.as_ref(), metric.metric_type())?)
        };
        let cpu = ConstCounter::new(usage.cpu_seconds);
        show("process_cpu", Some(Unit::Seconds), "User and system CPU time that the process has used", &cpu)?;
        let resident = ConstGauge::new(usage.resident_bytes);
        show("process_resident_memory", Some(Unit::Bytes), "Resident memory of the process", &resident)?;
        let mapped = ConstGauge::new(usage.virtual_bytes);
        show("process_virtual_memory", Some(Unit::Bytes), "Virtual memory of the process", &mapped)?;
        let open_fds = ConstGauge::new(u64::try_from(usage.open_fds).unwrap_or(u64::MAX));
        show("process_open_fds", None, "Open file descriptors of the process", &open_fds)?;
        if let Some(max_fds) = usage.max_fds {
            show("process_max_fds", None, "File descriptors that the process may open", &ConstGauge::new(max_fds))?;
        }
        let started = ConstGauge::new(usage.started_seconds);
        show("process_start_time", Some(Unit::Seconds), "Start time of the process, in seconds since 1970", &started)
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact for longer than the uptime of any machine")]
fn seconds(ticks: u64, ticks_per_second: u64) -> f64 {
    ticks as f64 / ticks_per_second.max(1) as f64
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_reported_usage_is_that_of_this_process() {
        let usage = ResourceUsage::read().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(
            usage.started_seconds > now - 86_400.0 && usage.started_seconds < now + 2.0,
            "{}",
            usage.started_seconds
        );
        assert!(usage.resident_bytes > 1 << 20 && usage.resident_bytes < usage.virtual_bytes);
        assert!(usage.open_fds >= 3 && usage.max_fds.is_none_or(|max| max >= 3));
        let opened = std::fs::File::open("/dev/null").unwrap();
        // Other tests in this process open and close files at the same time.
        let counts_files = || {
            let before = ResourceUsage::read().unwrap().open_fds;
            let _files: Vec<_> = (0..200).map(|_| opened.try_clone().unwrap()).collect();
            ResourceUsage::read().unwrap().open_fds > before + 100
        };
        assert!((0..100).any(|_| counts_files()));
        // The files above have cost the kernel's time as well.
        let stat = || std::fs::read_to_string("/proc/self/stat").unwrap();
        let ticks = |stat: &str| -> u64 {
            let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        };
        let (before, cpu, after) = (stat(), ResourceUsage::read().unwrap().cpu_seconds, stat());
        let spent = [before, after].map(|stat| seconds(ticks(&stat), procfs::ticks_per_second()));
        assert!(spent[0] <= cpu && cpu <= spent[1], "{cpu}, not {spent:?}");
        let busy = std::time::Instant::now();
        while ResourceUsage::read().unwrap().cpu_seconds <= usage.cpu_seconds {
            assert!(busy.elapsed().as_secs() < 60, "the CPU time did not grow within a minute of work");
        }
    }
}
