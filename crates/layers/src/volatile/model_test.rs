//! Random writes, flushes and cuts, compared with a model that keeps the history of each byte.

use std::collections::BTreeSet;

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use super::{Choice, Event, Journal, Mark, ReadAt, SECTOR, View, Write, journal::Piece};

/// Bytes of the disk.
const SIZE: u64 = 6 * SECTOR;

/// A mistake that a volatile disk could make. The test has to find each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    /// A flush covers writes that completed after it began.
    CoversTooMuch,
    /// Surviving writes are applied in the order in which they became stable, as `dm-log-writes` does.
    OrderLost,
    /// A torn write ends within a sector.
    TornWithinSector,
    /// A cut drops a write that was flushed.
    DropsFlushed,
    /// A flush that failed is as good as one that did not.
    FailureForgotten,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Write {
        offset: u64,
        length: u64,
        stable: bool,
    },
    BeginFlush,
    /// Of the flushes that are under way, the one with this number, modulo how many there are.
    EndFlush {
        which: usize,
        failed: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let aligned = (0..6u64, 1..4u64).prop_map(|(at, n)| (at * SECTOR, n * SECTOR));
    let any = (0..SIZE, 1..3 * SECTOR);
    let place = prop_oneof![3 => aligned, 1 => any];
    let write = (place, prop::bool::weighted(0.15)).prop_map(|((offset, length), stable)| {
        let length = length.min(SIZE - offset);
        Step::Write {
            offset,
            length,
            stable,
        }
    });
    let end = (0..4usize, prop::bool::weighted(0.15))
        .prop_map(|(which, failed)| Step::EndFlush { which, failed });
    prop::collection::vec(
        prop_oneof![5 => write, 2 => Just(Step::BeginFlush), 2 => end],
        1..40,
    )
}

/// The model: every byte with the writes to it, and every write with what has become of it.
#[derive(Default)]
struct Model {
    writes: Vec<ModelWrite>,
    /// Flushes under way: the writes that had completed before each began.
    under_way: Vec<Vec<usize>>,
}

struct ModelWrite {
    bytes: std::ops::Range<u64>,
    state: ModelState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelState {
    InCache,
    OnDisk,
    Gone,
}

/// What writes put on the disk: the number of the write, from 1. 0 is the disk at the start.
fn content(write: usize) -> u8 {
    write as u8 + 1
}

impl Model {
    fn step(&mut self, step: Step) {
        match step {
            Step::Write {
                offset,
                length,
                stable,
            } => self.writes.push(ModelWrite {
                bytes: offset..offset + length,
                state: if stable {
                    ModelState::OnDisk
                } else {
                    ModelState::InCache
                },
            }),
            Step::BeginFlush => self.under_way.push((0..self.writes.len()).collect()),
            Step::EndFlush { which, failed } => {
                if self.under_way.is_empty() {
                    return;
                }
                let covered = self.under_way.remove(which % self.under_way.len());
                for write in covered {
                    let state = &mut self.writes[write].state;
                    if *state == ModelState::InCache {
                        *state = if failed {
                            ModelState::Gone
                        } else {
                            ModelState::OnDisk
                        };
                    }
                }
            }
        }
    }

    fn cached(&self) -> Vec<usize> {
        let of = |n: &usize| self.writes[*n].state == ModelState::InCache;
        (0..self.writes.len()).filter(of).collect()
    }

    /// The byte at a place when the power is cut and these cached writes reached it.
    fn byte(&self, at: u64, kept: &BTreeSet<usize>) -> u8 {
        let there = |n: &usize| {
            let write = &self.writes[*n];
            let survives = write.state == ModelState::OnDisk || kept.contains(n);
            survives && write.bytes.contains(&at)
        };
        (0..self.writes.len()).rev().find(there).map_or(0, content)
    }

    fn disk(&self, kept: &BTreeSet<usize>) -> Vec<u8> {
        (0..SIZE).map(|at| self.byte(at, kept)).collect()
    }

    /// Whether each sector is as some of the cached writes to it would leave it.
    fn can_be(&self, disk: &[u8]) -> Result<(), String> {
        for sector in 0..SIZE / SECTOR {
            let range = sector * SECTOR..(sector + 1) * SECTOR;
            let touches = |n: &usize| {
                let bytes = &self.writes[*n].bytes;
                bytes.start < range.end && range.start < bytes.end
            };
            let cached: Vec<usize> = self.cached().into_iter().filter(touches).collect();
            let is = |kept: &BTreeSet<usize>| {
                range
                    .clone()
                    .all(|at| disk[at as usize] == self.byte(at, kept))
            };
            if !subsets(&cached).any(|kept| is(&kept)) {
                return Err(format!("sector {sector} is as no writes can leave it"));
            }
        }
        Ok(())
    }
}

fn subsets(of: &[usize]) -> impl Iterator<Item = BTreeSet<usize>> + use<> {
    let of = of.to_vec();
    (0..1u64 << of.len()).map(move |bits| {
        let chosen = of.iter().enumerate().filter(|(n, _)| bits >> n & 1 == 1);
        chosen.map(|(_, write)| *write).collect()
    })
}

/// The disk under test: a journal and a log in memory.
#[derive(Default)]
struct Tested {
    journal: Journal,
    log: Vec<u8>,
    writes: usize,
    under_way: Vec<usize>,
    defect: Option<Defect>,
}

impl Tested {
    fn step(&mut self, step: Step) {
        let event = match step {
            Step::Write {
                offset,
                length,
                stable,
            } => {
                let data = self.log.len() as u64;
                self.log
                    .resize(self.log.len() + length as usize, content(self.writes));
                self.writes += 1;
                Event::Write(Write {
                    offset,
                    length,
                    data,
                    stable,
                })
            }
            Step::BeginFlush => return self.under_way.push(self.writes),
            Step::EndFlush { which, failed } => {
                if self.under_way.is_empty() {
                    return;
                }
                let covers = self.under_way.remove(which % self.under_way.len());
                let late = self.defect == Some(Defect::CoversTooMuch);
                Event::Flush {
                    covers: if late { self.writes } else { covers },
                    failed: failed && self.defect != Some(Defect::FailureForgotten),
                }
            }
        };
        self.journal.push(event, Mark(self.log.len() as u64));
    }

    fn disk(&self, choice: Choice) -> Vec<u8> {
        let point = self.journal.events().len();
        let mut pieces = self.journal.survivors(point, choice);
        match self.defect {
            Some(Defect::OrderLost) => pieces.reverse(),
            Some(Defect::DropsFlushed) => drop(pieces.pop()),
            Some(Defect::TornWithinSector) if matches!(choice, Choice::Torn(_)) => {
                for Piece { length, .. } in &mut pieces {
                    *length -= *length / 3;
                }
            }
            _ => {}
        }
        let start = vec![0; SIZE as usize];
        let view = View {
            start: start.as_slice(),
            log: self.log.as_slice(),
            pieces,
        };
        let mut disk = vec![0; SIZE as usize];
        view.read_at(&mut disk, 0).unwrap();
        // A part of it is the same part.
        let mut part = [0; 700];
        view.read_at(&mut part, 300).unwrap();
        assert_eq!(part, disk[300..1000]);
        disk
    }
}

/// One history, and a cut after each step of it.
fn check(steps: &[Step], defect: Option<Defect>) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    let mut tested = Tested {
        defect,
        ..Tested::default()
    };
    for step in steps {
        model.step(*step);
        tested.step(*step);
    }
    let point = tested.journal.events().len();
    let cached = model.cached();
    prop_assert_eq!(tested.journal.cached(point), cached.len());
    let all: BTreeSet<usize> = cached.iter().copied().collect();
    prop_assert_eq!(tested.disk(Choice::None), model.disk(&BTreeSet::new()));
    prop_assert_eq!(tested.disk(Choice::All), model.disk(&all));
    if cached.len() <= 5 {
        for (bits, kept) in (0..).zip(subsets(&cached)) {
            prop_assert_eq!(tested.disk(Choice::Subset(bits)), model.disk(&kept));
        }
    }
    for seed in 0..4 {
        for choice in [Choice::Seeded(seed), Choice::Torn(seed)] {
            model
                .can_be(&tested.disk(choice))
                .map_err(|e| TestCaseError::fail(format!("{choice}: {e}")))?;
        }
    }
    Ok(())
}

fn run(defect: Option<Defect>) -> Result<(), String> {
    let config = Config {
        cases: 400,
        failure_persistence: None,
        max_shrink_iters: 0,
        ..Config::default()
    };
    TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    )
    .run(&steps(), |steps| check(&steps, defect))
    .map_err(|e| e.to_string())
}

#[test]
fn survivors_are_those_of_the_model() {
    run(None).unwrap();
}

#[test]
fn the_test_finds_every_known_mistake() {
    for defect in [
        Defect::CoversTooMuch,
        Defect::OrderLost,
        Defect::TornWithinSector,
        Defect::DropsFlushed,
        Defect::FailureForgotten,
    ] {
        assert!(run(Some(defect)).is_err(), "{defect:?} is not found");
    }
}

/// Two flushes under way at once, and the one that began first ends last: the block keeps its newer data.
#[test]
fn flushes_in_flight_keep_the_order_of_writes() {
    let write = Step::Write {
        offset: 0,
        length: SECTOR,
        stable: false,
    };
    let end = |which| Step::EndFlush {
        which,
        failed: false,
    };
    let steps = [
        write,
        Step::BeginFlush,
        write,
        Step::BeginFlush,
        end(1),
        end(0),
    ];
    let mut tested = Tested::default();
    for step in steps {
        tested.step(step);
    }
    for choice in [Choice::All, Choice::None, Choice::Torn(3)] {
        assert_eq!(tested.disk(choice)[..512], [2; 512], "{choice}");
    }
}

#[test]
fn points_are_at_flushes_and_between_them() {
    let mut tested = Tested::default();
    let write = Step::Write {
        offset: 0,
        length: SECTOR,
        stable: false,
    };
    let end = Step::EndFlush {
        which: 0,
        failed: false,
    };
    for step in [
        write,
        write,
        write,
        Step::BeginFlush,
        end,
        write,
        Step::BeginFlush,
        end,
        write,
    ] {
        tested.step(step);
    }
    let journal = &tested.journal;
    assert_eq!(journal.points(), [0, 1, 3, 4, 5, 6, 7]);
    assert_eq!(journal.flushes(0, 7), 2);
    assert_eq!(journal.flushes(4, 5), 0);
    assert_eq!(journal.cached(3), 3);
    assert_eq!(journal.cached(4), 0);
    assert_eq!(journal.mark(2), Mark(2 * SECTOR));
    // The flush after the third write adds nothing to this log.
    assert_eq!(journal.point(Mark(3 * SECTOR)), 4);
    assert_eq!(journal.point(Mark(3 * SECTOR - 1)), 2);
}
