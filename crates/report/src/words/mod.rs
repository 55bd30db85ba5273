//! The only sentences: each statement of [`crate::statements`] says here what it means. Lists, plurals, digits and marks
//! of names are written here, and nothing is decided.

mod advice;
mod alike;
pub mod alternatives;
pub mod captions;
mod causes;
mod caveats;
pub mod cell;
pub mod charts;
mod checks;
pub mod code_span;
pub mod commands;
pub mod compare;
pub mod cost;
pub mod cut_levels;
pub mod depth;
mod durability;
pub mod estimate_checks;
pub mod external;
mod fidelity;
pub mod figure_values;
pub mod figures;
mod findings;
pub mod fleet;
pub mod forecast;
pub mod gate;
pub mod headline;
mod in_short;
mod late;
pub mod left_out;
pub mod limits;
pub mod lists;
pub mod locks;
pub mod machine;
mod marked;
pub mod matrix;
mod notes;
pub mod number;
#[cfg(test)]
mod numbers;
pub mod odd;
pub mod power_cuts;
pub mod programs;
pub mod record_size;
pub mod remarks;
pub mod result_line;
mod run_line;
mod safe;
pub mod scaling;
pub mod sequences;
pub mod series;
mod served;
pub mod so_far;
pub mod studies;
mod threads;
pub mod trend;
pub mod verdicts;
mod waiting;
pub mod why;

pub use marked::{Names, SOME_BASELINE, Text};

/// A statement that can be said.
pub trait Words {
    /// What it says. A sentence has no full stop where its format adds one.
    fn words(&self, names: &Names) -> Text;
}

/// A [`Text`] from a format string.
macro_rules! text {
    ($($part:tt)*) => { $crate::words::Text::from(format!($($part)*)) };
}
pub(crate) use text;

/// Of a statement that names no layer.
pub const NO_NAMES: Names = Names { baseline: "" };

/// What a statement says in a run whose baseline is native.
#[cfg(test)]
pub fn said(statement: &impl Words) -> String {
    statement.words(&Names { baseline: "native" }).into()
}
