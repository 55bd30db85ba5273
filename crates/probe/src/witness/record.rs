//! The bytes of a record: every unit of 512 bytes says which record it is a part of.

use layermark_model::witness::{Content, Stamp};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a unit: what a disk writes as a whole.
pub const UNIT: usize = 512;
/// First bytes of a unit.
const MAGIC: [u8; 8] = *b"lm-wit/1";
/// Magic, run, block, sequence, generation, number of the unit.
const HEADER: usize = 48;
/// The checksum is at the end, so that a unit cut short is found.
const SUM: usize = UNIT - 8;

/// Fills a record of whole units.
pub fn fill(record: &mut [u8], stamp: Stamp) {
    for (unit, index) in record.as_chunks_mut::<UNIT>().0.iter_mut().zip(0u64..) {
        let head = [
            stamp.run,
            stamp.block,
            stamp.sequence,
            stamp.generation,
            index,
        ];
        unit[..8].copy_from_slice(&MAGIC);
        for (to, value) in unit[8..HEADER].as_chunks_mut::<8>().0.iter_mut().zip(head) {
            *to = value.to_le_bytes();
        }
        // A device that compresses or finds doubles has something to write.
        let mut noise = xxh3_64(&unit[..HEADER]);
        for to in unit[HEADER..SUM].as_chunks_mut::<8>().0 {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            *to = noise.to_le_bytes();
        }
        let sum = xxh3_64(&unit[..SUM]);
        unit[SUM..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// The record and the number of the unit, if the checksum is right.
fn unit(unit: &[u8; UNIT]) -> Option<(Stamp, u64)> {
    let field = |n: usize| {
        unit[8 * n..]
            .first_chunk()
            .map_or(0, |b| u64::from_le_bytes(*b))
    };
    let sound = unit[..8] == MAGIC && field(SUM / 8) == xxh3_64(&unit[..SUM]);
    let stamp = Stamp {
        run: field(1),
        block: field(2),
        sequence: field(3),
        generation: field(4),
    };
    sound.then_some((stamp, field(5)))
}

/// What these bytes of a block hold. A block may be shorter than a record.
pub fn read(block: &[u8], record: usize) -> Content {
    if block.iter().all(|b| *b == 0) {
        return Content::Empty;
    }
    let (units, rest) = block.as_chunks::<UNIT>();
    let all: Vec<_> = units.iter().map(unit).collect();
    let wanted = record / UNIT;
    let first = all.first().copied().flatten().map(|(stamp, _)| stamp);
    let part = |(at, unit): (usize, &Option<(Stamp, u64)>)| {
        first.is_some_and(|stamp| *unit == Some((stamp, at as u64)))
    };
    match first {
        Some(stamp)
            if rest.is_empty() && all.len() == wanted && all.iter().enumerate().all(part) =>
        {
            Content::Whole(stamp)
        }
        _ => {
            // Of the write that most sound units are of.
            let of = |stamp: &Stamp| all.iter().flatten().filter(|(s, _)| s == stamp).count();
            let sound = all.iter().flatten().map(|(s, _)| of(s)).max().unwrap_or(0);
            Content::Torn {
                sound: sound as u64,
                units: wanted as u64,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(sequence: u64) -> Vec<u8> {
        let mut record = vec![0; 4096];
        fill(&mut record, stamp(sequence));
        record
    }

    fn stamp(sequence: u64) -> Stamp {
        Stamp {
            run: 1,
            block: 2,
            sequence,
            generation: 3,
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        assert_eq!(read(&made(5), 4096), Content::Whole(stamp(5)));
        assert_eq!(read(&[0; 4096], 4096), Content::Empty);
        assert_eq!(read(&[], 4096), Content::Empty);
    }

    #[test]
    fn every_part_of_another_write_is_torn() {
        let (old, new) = (made(5), made(6));
        for units in 1..8 {
            let mut mixed = old.clone();
            mixed[..units * UNIT].copy_from_slice(&new[..units * UNIT]);
            let sound = units.max(8 - units) as u64;
            assert_eq!(read(&mixed, 4096), Content::Torn { sound, units: 8 });
        }
        let mut moved = old.clone();
        moved.rotate_left(UNIT);
        assert!(matches!(read(&moved, 4096), Content::Torn { .. }));
        assert!(matches!(
            read(&old[..2048], 4096),
            Content::Torn { sound: 4, .. }
        ));
        assert!(matches!(
            read(&old[..4000], 4096),
            Content::Torn { sound: 7, .. }
        ));
    }

    proptest::proptest! {
        #[test]
        fn any_changed_byte_is_noticed(at in 0usize..4096, by in 1u8..=255) {
            let mut record = made(9);
            record[at] ^= by;
            let is_torn = matches!(read(&record, 4096), Content::Torn { sound: 7, .. });
            proptest::prop_assert!(is_torn);
        }
    }
}
