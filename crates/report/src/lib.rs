//! What a run says: one [`Report`] made from a run and its trials, printed by exporters.
//!
//! [`Report::build`] is pure. To add a format, write `exporters/NAME.rs` and its line in
//! [`exporters::ALL`].

mod advice;
mod beside;
mod build;
mod charts;
mod code_span;
mod columns;
mod cost;
mod durability;
pub mod exporters;
mod facts;
mod family;
mod fidelity;
mod grid;
mod headline;
mod index;
mod iops;
mod key_findings;
mod kinds;
mod latency;
mod launch;
mod launch_types;
mod number;
mod overview;
mod plain;
mod points;
mod reasons;
mod recommend;
mod results;
#[doc(hidden)]
pub mod sample;
mod section;
mod seek;
mod served;
mod studies;
mod threads;
mod trust;
mod types;
mod undecided;
mod words;

pub use beside::{Beside, BesideRow};
pub use cost::CostRow;
pub use launch_types::*;
pub use number::ratio_with;
pub use recommend::{BufferRow, Pick};
pub use section::{
    Axis, Cell, Claims, Conclusion, DataTable, Holds, LineChart, Mark, Section, Series, TextFile,
};
pub use types::*;

/// JSON schema of the report, as published in `docs/schema/report.json`.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Report).to_value()
}
