//! Made-up runs and a database server for tests, examples and the fuzzer. A development dependency: the binary has none
//! of it.

pub mod postgres;
pub mod sample;
