//! What the environment tells of the pod in which this process is.

/// A variable such as `POD_NAME`. An empty one, as manifests leave behind, is as good as none.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
