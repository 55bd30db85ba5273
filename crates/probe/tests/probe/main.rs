//! The probe over pipes, one module for each workload, engine or property.

mod advice;
mod circles;
mod common;
mod file;
mod iops;
mod kept;
mod meta;
mod namespace;
mod ops;
mod serve;
mod steps;
mod turns;
mod uring;
