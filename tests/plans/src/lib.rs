//! Faults before a real API server: every write of a scenario, and every event that a process of it is told of, each with
//! each thing that can go wrong there.
//!
//! Scenarios are played by real controllers and real electors against a real kube-apiserver; between each process and
//! the server lies the layer of faults that the simulation has, too. An undisturbed run lists what there is to go wrong, as
//! Sieve (OSDI '22) does; each line with each fault is one plan. The rules that must hold: the run ends where the undisturbed
//! one ends; at no instant do two lead; tokens grow; nothing is written that is not on the list.

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
