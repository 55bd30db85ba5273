//! iozone's tests: its numbers and titles for them, and our operations for each.

/// A test of iozone, as selected by `-i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IozoneTest {
    /// The number after `-i`.
    pub number: u64,
    /// Its word in the parameter `tests`.
    pub id: &'static str,
    /// Our engine; `None` for the run's engine, which uses read(2) and write(2) by default.
    pub engine: Option<&'static str>,
    /// Its steps in order.
    pub steps: &'static [IozoneStep],
}

/// A step of an iozone test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IozoneStep {
    /// Our operation.
    pub op: &'static str,
    /// It repeats the work on the same file: `-+n` leaves it out.
    pub again: bool,
    /// Title of its table with `-R`; `None` if only `-t` has the step, which prints no tables.
    pub title: Option<&'static str>,
}

const fn step(op: &'static str, title: &'static str) -> IozoneStep {
    IozoneStep {
        op,
        again: false,
        title: Some(title),
    }
}

const fn again(op: &'static str, title: &'static str) -> IozoneStep {
    IozoneStep {
        again: true,
        ..step(op, title)
    }
}

const fn test(
    number: u64,
    id: &'static str,
    engine: Option<&'static str>,
    steps: &'static [IozoneStep],
) -> IozoneTest {
    IozoneTest {
        number,
        id,
        engine,
        steps,
    }
}

/// All tests in iozone's order, which is that of its columns and tables.
pub const IOZONE_TESTS: [IozoneTest; 13] = [
    test(
        0,
        "write",
        None,
        &[step("write", "Writer"), again("rewrite", "Re-writer")],
    ),
    test(
        1,
        "read",
        None,
        &[step("read", "Reader"), again("reread", "Re-Reader")],
    ),
    test(
        2,
        "random",
        None,
        &[
            step("rand-read", "Random read"),
            step("rand-write", "Random write"),
        ],
    ),
    test(
        3,
        "backward",
        None,
        &[step("backward-read", "Backward read")],
    ),
    test(
        4,
        "record-rewrite",
        None,
        &[step("record-rewrite", "Record rewrite")],
    ),
    test(5, "stride", None, &[step("stride-read", "Stride read")]),
    test(
        6,
        "fwrite",
        Some("stdio"),
        &[step("write", "Fwrite"), again("rewrite", "Re-Fwrite")],
    ),
    test(
        7,
        "fread",
        Some("stdio"),
        &[step("read", "Fread"), again("reread", "Re-Fread")],
    ),
    test(
        8,
        "mix",
        None,
        &[IozoneStep {
            op: "mix",
            again: false,
            title: None,
        }],
    ),
    test(
        9,
        "pwrite",
        Some("pread"),
        &[step("write", "Pwrite"), again("rewrite", "Re-Pwrite")],
    ),
    test(
        10,
        "pread",
        Some("pread"),
        &[step("read", "Pread"), again("reread", "Re-Pread")],
    ),
    test(
        11,
        "pwritev",
        Some("preadv"),
        &[step("write", "Pwritev"), again("rewrite", "Re-Pwritev")],
    ),
    test(
        12,
        "preadv",
        Some("preadv"),
        &[step("read", "Preadv"), again("reread", "Re-Preadv")],
    ),
];

/// A table of iozone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IozoneTable {
    /// Its title, without the word `report`.
    pub title: &'static str,
    /// Our operation.
    pub op: &'static str,
    /// See [`IozoneTest::engine`].
    pub engine: Option<&'static str>,
}

/// The tables that `iozone -R` prints, in its order.
pub fn iozone_tables() -> impl Iterator<Item = IozoneTable> {
    IOZONE_TESTS.iter().flat_map(|test| {
        test.steps.iter().filter_map(|step| {
            Some(IozoneTable {
                title: step.title?,
                op: step.op,
                engine: test.engine,
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_and_titles_differ() {
        for (at, test) in (0u64..).zip(&IOZONE_TESTS) {
            assert_eq!(test.number, at, "{}", test.id);
        }
        let mut titles: Vec<String> = iozone_tables().map(|t| t.title.to_lowercase()).collect();
        assert_eq!(titles.len(), 21);
        titles.sort();
        titles.dedup();
        assert_eq!(titles.len(), 21);
    }
}
