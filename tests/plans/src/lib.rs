//! Faults before a real API server.
