//! A candidate that a test creates.

use hustings_core::model::Nomination;

/// The candidate `name` for the Lease `l`, with no field that it can do without.
pub(crate) fn nomination(name: &str) -> Box<Nomination> {
    Box::new(Nomination {
        name: name.to_owned(),
        lease_name: "l".to_owned(),
        binary_version: "1.0".to_owned(),
        lease_duration_seconds: 15,
        session: "s".to_owned(),
        ..Nomination::default()
    })
}
