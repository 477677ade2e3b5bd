//! Answers connections: with the Pod, and whether it leads.

use std::{env, io::Write as _, net::TcpListener};

const ADDRESS: &str = "0.0.0.0:8000";

/// Answers, unless another process in the network of the Pod does.
pub(crate) fn answer(leads: impl Fn() -> bool) {
    let pod = env::var("POD_NAME").unwrap_or_default();
    let Ok(listener) = TcpListener::bind(ADDRESS) else { return };
    for mut connection in listener.incoming().flatten() {
        // A client that is gone needs no answer.
        let _ = writeln!(connection, "{pod} {}", leads());
    }
}
