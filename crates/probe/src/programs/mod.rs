//! Programs that workloads start: processes, their groups, their ends.

mod apart;
pub mod guard;
pub mod said;
pub mod spawn;
pub mod sys;
pub mod tree;
pub mod user;

/// Directories searched for programs. The user's own `PATH` does not influence the measurement.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
