//! What will happen to an election: the election and the electors themselves, run ahead of time on the objects.

pub(crate) mod client_go;
pub(crate) mod forecast;
pub(crate) mod order;
pub(crate) mod simulation;
