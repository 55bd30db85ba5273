//! Made-up runs for tests, examples and the fuzzer. A development dependency: the binary has none
//! of it.

pub mod sample;
