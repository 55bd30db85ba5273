//! Stored and invented runs, a database server and an SSH server for tests, examples and the fuzzer. This is a development
//! dependency, so the binary does not contain it.

pub mod fixtures;
pub mod mounts;
pub mod postgres;
pub mod sample;
pub mod slurm;
pub mod ssh;
mod wait;

use std::path::PathBuf;

pub use wait::{heard, wait_for};

/// The directory of a crate: where the runner of tests says, which may run them elsewhere as another user who cannot
/// enter the clone, or `built`, where it was compiled.
pub fn crate_dir(built: &str) -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| built.into(), PathBuf::from)
}
