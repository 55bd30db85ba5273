//! Builds a layer, carries the probe's standard input and output, and unwinds.
//!
//! To add a layer, write `NAME.rs` and its line in [`ALL`].
