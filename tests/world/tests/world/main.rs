//! What the simulated world must be, and what must hold in it. One program, because the comparison with a real API
//! server leaves the processor to the others.

mod conformance;
mod fairness;
mod fallback;
mod simulation;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
