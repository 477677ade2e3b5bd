//! Faults before a real API server: each write of a scenario, and each watch event that its processes receive, meets each
//! possible fault.
//!
//! Real controllers and real electors play the scenarios against a real kube-apiserver. The fault layer of the simulation
//! lies between each process and the server. An undisturbed run lists the points, as Sieve (OSDI '22) does; each point with
//! each fault is one plan. The rules that must hold: the run ends as the undisturbed one does; no two lead at one instant;
//! tokens grow; every write is on the list.

pub mod campaign;
pub mod cast;
pub mod ledger;
pub mod outcome;
pub mod point;
pub mod program;
pub mod proxy;
pub mod purpose;
pub mod scenario;
pub mod stage;
pub mod tap;
