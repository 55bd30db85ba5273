//! Statements: what a report says, and in which order, is decided here, from one selection of rows.
//!
//! Each kind of sentence is an enum whose variants hold rows, names of layers and points, and numbers, and no text.
//! [`crate::words`] has the sentence of each variant. A new finding is a variant, its rule here and its words there.

pub mod alike;
pub mod compare;
pub mod cost;
pub mod depth;
pub mod durability;
pub mod external;
pub mod forecast;
pub mod gate;
pub mod power_cuts;
pub mod remarks;
pub mod scaling;
pub mod series;
pub mod served;
