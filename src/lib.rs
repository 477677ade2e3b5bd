//! The controller and the command line.
