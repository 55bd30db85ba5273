//! Names under which a trial has the system calls of a step, for each operation. The probe counts them, and the
//! report forecasts times from them.

/// Group of the numbers of calls, by kind.
pub const GROUP: &str = "calls";
/// Group of the bytes that they moved, by kind.
pub const BYTES: &str = "call_bytes";
/// Value with the calls of the task that made most of them.
pub const BUSIEST: &str = "calls_of_busiest_task";
