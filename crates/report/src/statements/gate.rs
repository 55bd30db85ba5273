//! Results of gates.

use crate::types::{GateRow, ResultRow};

/// A result beside its gate.
#[derive(Debug, Clone, PartialEq)]
pub struct Held<'a> {
    /// The result, if it was measured.
    pub row: Option<&'a ResultRow>,
    /// The highest allowed ratio.
    pub limit: Option<f64>,
    /// What an undecided result lacks.
    pub lacks: Option<Lacks>,
}

/// Further measurements that an undecided result lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lacks {
    /// How many.
    pub more: usize,
    /// Of what.
    pub of: Repeated,
    /// Whether nothing can be told without them; else they may tell.
    pub needed: bool,
}

/// What is measured again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeated {
    /// Blocks of turns.
    Block,
    /// Launches of a program.
    Launch,
}

/// Gates that failed.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedGates<'a> {
    /// How many results failed one.
    pub failed: usize,
    /// Of how many with a gate.
    pub of: usize,
    /// Their layers, each once.
    pub layers: Vec<&'a str>,
    /// The first of them.
    pub first: &'a GateRow,
}
