//! Access to the API server: the forms of a kubeconfig and of proxies beside kubectl, credentials that change, and that no
//! secret is printed.

#![allow(clippy::needless_pass_by_value, reason = "tests write JSON where they pass it")]

mod certificates;
mod forms;
mod plugins;
mod proxies;
mod secrets;
mod stage;
