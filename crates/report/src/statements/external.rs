//! Differences between a result and that of another program.

use layermark_model::{CacheState, ImportedPoint};

use crate::types::ServedBy;

/// A condition that is not the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition<'a> {
    /// The cache of ours and where it read from. The other program tells nothing about it.
    Cache(Option<CacheState>, ServedBy),
    /// Whether `O_DIRECT` was used, here and there.
    Direct(bool, Option<bool>),
    /// When it flushes.
    Flush(&'a str, Option<&'a str>),
    /// The I/O engine.
    Engine(&'a str, Option<&'a str>),
    /// Theirs is one of so many jobs at once, so rates are not compared.
    OneOf(u64),
    /// The size of their file is not told.
    FileSize,
}

/// What a point of an import is, in words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Imported<'a>(pub &'a ImportedPoint);

/// A quantity that differs between two imports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportDifference<'a> {
    /// What it is.
    pub what: &'static str,
    /// In the older one.
    pub old: Option<&'a str>,
    /// In the newer one.
    pub new: Option<&'a str>,
}
