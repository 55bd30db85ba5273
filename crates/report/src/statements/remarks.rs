//! What a row says of itself beside its ratio: notes in tables, clauses of sentences.

use layermark_model::{CacheState, Direction};

use crate::types::{Estimate, FewerBytes, ResultRow, ServedBy, Stalls, TwoKinds};

/// A remark about one result.
#[derive(Debug, Clone, PartialEq)]
pub enum Remark<'a> {
    /// A few operations make the average differ from the typical ratio. The second is that of the averages.
    Stalls(Estimate, Estimate, Option<Stalls>),
    /// The ratio with the time that waited for a CPU, which the row is without.
    WithWaiting(Estimate),
    /// Data came from another place than was asked for, with the evidence.
    ReadFrom(ServedBy, &'a str),
    /// Fewer bytes crossed the device than the application moved.
    FewerBytes(&'a FewerBytes, Crossed),
    /// Operations of two kinds.
    TwoKinds(TwoKinds, Quick),
    /// Share of the data that came from memory.
    FromMemory(f64),
}

/// In which direction bytes crossed a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossed {
    /// From the device.
    From,
    /// To the device.
    To,
}

/// What the quick ones of two kinds of operations show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quick {
    /// Their data came from memory, and that of the others from the device.
    FromMemory,
    /// Nothing: with `O_DIRECT`, no data came from a known cache.
    Unknown,
}

/// The average of a result whose typical ratio does not show it.
pub fn stalls(row: &ResultRow) -> Option<Remark<'_>> {
    let ratio = row.ratio.filter(|_| row.has_stalls())?;
    let average = Estimate::from(ratio.average?);
    Some(Remark::Stalls(ratio, average, row.stalls))
}

/// The ratio with the time that waited, if it is so far from that without it that a reader should know.
pub fn with_waiting(row: &ResultRow) -> Option<Remark<'_>> {
    let (ratio, with) = row.ratio.zip(row.waiting?.ratio_with)?;
    let half = ratio.half_width()?;
    let apart = (with.estimate / ratio.estimate).ln().abs();
    (apart > half).then_some(Remark::WithWaiting(with))
}

/// A source of data other than the requested one.
pub fn read_from(row: &ResultRow) -> Option<Remark<'_>> {
    let direct = row.meaning.is_direct();
    let expected = match (row.served_by?, row.meaning.cache) {
        (ServedBy::Device, Some(CacheState::Warm)) => direct,
        (ServedBy::Device, _) => true,
        (ServedBy::HostMemory | ServedBy::GuestMemory, Some(CacheState::Warm)) => !direct,
        (_, Some(_)) => false,
        _ => !direct,
    };
    let because = row.served_because.as_deref()?;
    (!expected).then_some(Remark::ReadFrom(row.served_by?, because))
}

/// That fewer bytes crossed the device.
pub fn fewer_bytes(row: &ResultRow) -> Option<Remark<'_>> {
    let crossed = match row.meaning.direction {
        Direction::Reads => Crossed::From,
        _ => Crossed::To,
    };
    Some(Remark::FewerBytes(row.fewer_bytes.as_ref()?, crossed))
}

/// That a read was served from memory and from the device. `None` for a sequential read, most of which is read ahead.
pub fn two_kinds(row: &ResultRow) -> Option<Remark<'_>> {
    match (row.served_by?, row.two_kinds) {
        (ServedBy::Device, Some(_)) if row.meaning.in_order => None,
        (ServedBy::Device | ServedBy::Mixed, Some(kinds)) => {
            let direct = row.meaning.is_direct();
            let quick = if direct {
                Quick::Unknown
            } else {
                Quick::FromMemory
            };
            Some(Remark::TwoKinds(kinds, quick))
        }
        (ServedBy::Mixed, None) => {
            let from_device = row.device_share?.clamp(0.0, 1.0);
            Some(Remark::FromMemory(1.0 - from_device))
        }
        _ => None,
    }
}
