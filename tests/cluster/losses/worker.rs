//! Processes that execute the orders of a scene, which `hustings campaign` cannot do: this program, started again. They
//! report what they did as lines of JSON.

use std::process::Command;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{adding, many};
use crate::replica::json_lines;

const ORDERS: &str = "LOSSES_ORDERS";

/// The orders of a process, which it executes until it is killed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Orders {
    AddToSet(adding::Orders),
    StandForMany(many::Orders),
}

/// This program with orders: the example, or a binary of tests that runs the last function here.
pub(crate) fn command(orders: &Orders) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    if cfg!(test) {
        command.args(["--exact", "losses::worker::carries_out_orders", "--ignored", "--nocapture"]);
    }
    command.env(ORDERS, serde_json::to_string(orders).unwrap());
    command
}

/// Carries out the orders that this process was given; false if there are none.
pub(crate) fn carry_out_orders() -> bool {
    let Ok(orders) = std::env::var(ORDERS) else { return false };
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A request that stops must not block the elector.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    runtime.block_on(async {
        match serde_json::from_str(&orders).unwrap() {
            Orders::AddToSet(orders) => adding::add_for_ever(orders).await,
            Orders::StandForMany(orders) => many::stand(orders).await,
        }
    });
    true
}

#[test]
#[ignore = "it is the process that other tests start"]
fn carries_out_orders() {
    carry_out_orders();
}

pub(crate) fn say(said: &impl Serialize) {
    println!("{}", serde_json::to_string(said).unwrap());
}

/// The reports of a process.
pub(crate) fn said<T: DeserializeOwned>(process: &hustings_controlplane::Process) -> Vec<T> {
    let log = std::fs::read_to_string(process.log()).unwrap();
    let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    json_lines(&log).map(read).collect()
}
