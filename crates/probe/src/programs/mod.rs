//! Programs that workloads start, with their process groups and how they end.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

mod apart;
pub mod daemon;
pub mod guard;
pub mod last_output;
pub mod spawn;
pub mod strace;
pub mod sys;
pub mod tree;
pub mod user;

/// Directories searched for programs. The user's own `PATH` does not influence the measurement.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The path of a program, searched in directories separated by colons.
pub fn which(program: &str, path: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let mut candidates = path.split(':').map(|dir| Path::new(dir).join(program));
    candidates.find(is_program)
}
