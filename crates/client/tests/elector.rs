//! Electors against a real API server. Their promises depend on how the server treats conditional writes, validation
//! and watches.

#![allow(missing_docs, reason = "these are tests")]

mod elector {
    mod backends;
    mod coordinated;
    mod crd;
    mod dependencies;
    mod direct;
    mod elections;
    mod events;
    mod forged;
    mod istio;
    mod objects;
    mod owners;
    mod panics;
    mod permissions;
    mod reclaim;
    mod revoked;
    mod rights;
    mod stage;
    mod stale_connections;
    mod time_range;
    mod timing;
}
