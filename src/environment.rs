//! The environment variables that describe this process's pod, from the downward API.

/// Returns a variable such as `POD_NAME`. An empty variable counts as absent, since manifests may leave it empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
