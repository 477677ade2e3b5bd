//! The environment variables of this process: one for each flag, and those that describe its pod, from the downward
//! API.

/// The environment variable of a flag.
pub(crate) fn variable_name(long: &str) -> String {
    format!("HUSTINGS_{}", long.replace('-', "_").to_uppercase())
}

/// Returns a variable such as `POD_NAME`. An empty variable counts as absent, since manifests may leave it empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
