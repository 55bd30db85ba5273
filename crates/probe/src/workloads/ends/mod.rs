//! Common parts of workloads with two ends: the far end's listener, the lines of the control
//! connection, CPUs of both ends, and errors in words.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub mod ceiling;
pub mod control;
pub mod error;
pub mod lines;
pub mod listening;
pub mod place;
#[cfg(test)]
pub mod testing;

/// How long a peer may be silent before it counts as failed.
pub const PATIENCE: Duration = Duration::from_secs(5);

pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
