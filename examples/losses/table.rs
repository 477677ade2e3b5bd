//! Markdown tables.

use std::time::Duration;

/// Prints a table.
pub(crate) fn print(header: &[&str], rows: &[Vec<String>]) {
    println!("| {} |", header.join(" | "));
    println!("|{}", "---|".repeat(header.len()));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
    println!();
}

/// The middle and the greatest of some times, in seconds; a dash for none.
pub(crate) fn times(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    match times.last() {
        None => "-".to_owned(),
        Some(longest) => format!("{} / {}", seconds(times[times.len() / 2]), seconds(*longest)),
    }
}

/// A time in seconds.
pub(crate) fn seconds(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 0.1 { format!("{seconds:.4}") } else { format!("{seconds:.1}") }
}
