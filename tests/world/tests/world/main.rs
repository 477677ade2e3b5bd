//! Tests of the simulated world, and of the real code in it. They are one program, because the comparison with a real
//! API server leaves most of the processor to the others.

mod conformance;
mod fairness;
mod fallback;
mod simulation;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
