//! Reports: a [`Report`] is made from a run and its trials, and drawn by `render`.
//!
//! [`Report::build`] is pure. To add a format, write `render/NAME.rs` and its line in
//! [`render::ALL`].

mod build;
mod compare;
mod facts;
mod gate;
mod group;
mod history;
#[cfg(test)]
mod numerals;
pub mod page;
mod plain;
pub mod render;
mod safe;
mod sentences;
mod so_far;
mod statements;
mod studies;
mod tables;
mod types;
mod views;
mod why;
mod words;

use words::{code_span, number};

pub use compare::HostOfCheck;
pub use facts::stalls::SIGN as STALLS;
pub use history::{Change, TALLY_RULES, Tally, Trend, TrendFigure, TrendRun, TrendSeries, changes};
pub use number::{count, ratio_with, thousands, time_with};
pub use so_far::{EarlyCell, SoFar};
pub use types::*;
pub use words::remarks::STALLS as STALLS_MEANING;

/// JSON schema of two imports next to each other, as published in `docs/schema/imports.json`.
pub fn imports_schema() -> serde_json::Value {
    schemars::schema_for!(ImportComparison).to_value()
}

/// JSON schema of `layermark compare A B C --json`, as published in `docs/schema/odd.json`.
pub fn odd_schema() -> serde_json::Value {
    schemars::schema_for!(ManyRuns).to_value()
}

/// JSON schema of `layermark fleet check --json`, as published in `docs/schema/fleet-check.json`.
pub fn fleet_check_schema() -> serde_json::Value {
    schemars::schema_for!(FleetCheck).to_value()
}

/// JSON schema of `layermark fleet run --json`, as published in `docs/schema/fleet.json`.
pub fn fleet_schema() -> serde_json::Value {
    schemars::schema_for!(FleetReport).to_value()
}

/// JSON schema of `layermark safe --json`, as published in `docs/schema/safe.json`.
pub fn safe_schema() -> serde_json::Value {
    schemars::schema_for!(Safety).to_value()
}

/// JSON schema of `layermark why --json`, as published in `docs/schema/why.json`.
pub fn why_schema() -> serde_json::Value {
    schemars::schema_for!(Why).to_value()
}

/// JSON schema of the report, as published in `docs/schema/report.json`.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Report).to_value()
}
