//! Stored and invented runs, a database server and an SSH server for tests, examples and the fuzzer. This is a development
//! dependency, so the binary does not contain it.

pub mod fixtures;
pub mod postgres;
pub mod sample;
pub mod ssh;
mod wait;

pub use wait::{heard, wait_for};
