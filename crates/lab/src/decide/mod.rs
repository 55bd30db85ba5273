//! Decisions of a run: order, time, and when enough is known. Pure: nothing here starts, reads or
//! waits for anything, and nothing here needs the modules that do.

pub(crate) mod budget;
pub(crate) mod fewer;
pub(crate) mod flags;
pub(crate) mod forecast;
pub(crate) mod guess;
pub(crate) mod parts;
pub(crate) mod schedule;
pub(crate) mod share;
pub(crate) mod skips;
pub(crate) mod stop;
pub(crate) mod tally;
