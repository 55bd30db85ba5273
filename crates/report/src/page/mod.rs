//! What is drawn, made once for every format: the [`Document`] of blocks, the matrix of cells, results as lines, charts.
//! A format chooses parts and their order, and draws each block.

mod block;
pub(crate) mod cell;
pub(crate) mod charts;
mod document;
mod left_out;
pub(crate) mod matrix;
mod names;
pub(crate) mod results;
pub(crate) mod shade;
pub(crate) mod sign;
pub(crate) mod sizes;

pub use block::{Block, Content, Item, Method, Part, Stack};
pub use document::Document;
pub(crate) use names::{name_parts, short_names};
