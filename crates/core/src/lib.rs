//! The pure rules of Hustings.
