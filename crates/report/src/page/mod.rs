//! What is drawn: the matrix of cells, their shades, and charts.

pub mod cell;
pub mod charts;
pub mod matrix;
mod names;
pub mod results;
pub mod shade;
pub mod sizes;

pub use names::{name_parts, short_names};
