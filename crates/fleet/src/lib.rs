//! A fleet: one coordinator, and a task on each host that a launcher has started. The coordinator orders trials step
//! by step over the launcher's own pipes; nothing listens on a port. Slurm, MPI or a command of the user's place, start
//! and end the tasks.

pub mod check;
pub mod coordinator;
pub mod copied;
pub mod descriptors;
pub mod frame;
pub mod hosts;
pub mod launchers;
mod link;
pub mod protocol;
pub mod round;
#[cfg(test)]
mod simulated;
pub mod storm;
pub mod task;
