//! Results that the study of development machines draws and decides from.

use layermark_model::Unit;

use super::{
    Data,
    rows::{data_size, engine_used, request_size, usable},
};
use crate::{statements::studies::iozone_vm::PartOf, types::ResultRow};

/// Largest of the study's small files.
pub const SMALL: u64 = 64 << 10;

/// One of the four charts.
pub struct StudyPart<'a> {
    pub data: &'a Data<'a>,
    pub op: &'static str,
    pub small: bool,
}

impl<'a> StudyPart<'a> {
    /// Its results: through system calls, without a flush.
    ///
    /// If a plan has several file sizes, those of the largest.
    pub fn rows(&self) -> impl Iterator<Item = &'a ResultRow> {
        let (op, small) = (self.op, self.small);
        let plain = |r: &&ResultRow| {
            !r.meaning.flushes && r.meaning.unit == Unit::Byte && engine_used(r) != "stdio"
        };
        let of = move |r: &&ResultRow| {
            r.meaning.operation == op && (data_size(r) <= SMALL) == small && usable(r)
        };
        let all: Vec<&ResultRow> = self.data.results.iter().filter(plain).filter(of).collect();
        let size = |r: &&ResultRow| data_size(r);
        let largest = all.iter().map(size).max();
        all.into_iter().filter(move |r| Some(size(r)) == largest)
    }

    /// The results of a layer.
    pub fn of(&self, layer: &str) -> Vec<&'a ResultRow> {
        self.rows().filter(|r| r.layer == layer).collect()
    }

    /// What it is about.
    pub fn said(&self) -> PartOf<'static> {
        let largest = self.rows().map(data_size).max();
        PartOf {
            op: self.op,
            file: largest.unwrap_or(0),
        }
    }
}

/// Pairs of results of one operation in a layer: through system calls and through the C library.
pub fn pairs<'a>(data: &Data<'a>, layer: &str, op: &str) -> Vec<(&'a ResultRow, &'a ResultRow)> {
    let own = |engine: &'static str| {
        data.results.iter().filter(move |r| {
            r.layer == layer && r.meaning.operation == op && engine_used(r) == engine && usable(r)
        })
    };
    let like = |c: &ResultRow, s: &ResultRow| {
        (request_size(c), data_size(c)) == (request_size(s), data_size(s))
            && c.meaning.sync == s.meaning.sync
    };
    own("stdio")
        .filter_map(|stream| Some((own("sync").find(|call| like(call, stream))?, stream)))
        .collect()
}
