//! What a running process shows to its operator: health, metrics, the log, and the page.

pub mod admin;
pub mod health;
pub mod http;
pub mod logging;
pub mod metrics;
pub mod page;
pub mod runtime;
