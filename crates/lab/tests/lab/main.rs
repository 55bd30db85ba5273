//! The lab with scripted layers, one module for each of its duties.

mod bad_days;
mod budget;
mod common;
mod order_and_end;
mod resume;
mod two_ends;
