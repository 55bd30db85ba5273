//! One file for each format.

use std::{fmt, marker::PhantomData};

use layermark_model::ImportedPoint;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};

use crate::lines::{self, Section};

mod ab;
mod crystaldiskmark;
mod dd;
mod diskspd;
mod elbencho;
mod fio;
mod hyperfine;
mod iometer;
mod ior;
mod iozone;
mod iperf3;
mod mdtest;
mod netperf;
mod pgbench;
mod sysbench;
mod wrk;

/// The content of a file.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    /// The program, with its version if the file names it.
    pub tool: String,
    /// When it was measured, as written in the file.
    pub measured: Option<String>,
    /// What was skipped, and why.
    pub notes: Vec<String>,
    /// The measured points: at least one.
    pub points: Vec<ImportedPoint>,
}

/// Most results of one file. A whole matrix of iozone has some thousand; each takes about 400 bytes
/// of memory, and a file of 64 MiB could hold twenty million.
pub const MOST_POINTS: usize = 100_000;

/// Most remarks about one file.
const MOST_NOTES: usize = 100;

/// Longest line of a file in a text format, bytes. Lines of iozone and Iometer have at most a few
/// hundred cells.
const LONGEST_LINE: usize = 64 << 10;

impl Found {
    fn point(&mut self, point: ImportedPoint) -> Result<(), String> {
        if self.points.len() == MOST_POINTS {
            return Err(format!(
                "it has more than {MOST_POINTS} results, the most that are imported"
            ));
        }
        self.points.push(point);
        Ok(())
    }

    pub(crate) fn note(&mut self, text: String) {
        match self.notes.len() {
            0..MOST_NOTES => self.notes.push(text),
            MOST_NOTES => self.notes.push("further remarks were left out".into()),
            _ => {}
        }
    }
}

/// Refuses overlong lines, and more than are read: parsed cells, and lists of lines, take many times
/// the memory of the text.
fn short_lines(text: &str) -> Result<(), String> {
    short(text.lines().enumerate().map(|(at, line)| (at + 1, line)))
}

/// The same of lines with their numbers.
fn short<'a>(all: impl Iterator<Item = (usize, &'a str)>) -> Result<(), String> {
    for (count, (at, line)) in all.enumerate() {
        if count == lines::MOST {
            return Err(lines::too_many());
        }
        if line.len() > LONGEST_LINE {
            let most = LONGEST_LINE >> 10;
            return Err(format!("line {at} is longer than {most} KiB"));
        }
    }
    Ok(())
}

/// Reads a list of at most [`MOST_POINTS`] entries: a parsed entry takes much more memory than the
/// text `{},`.
fn bounded<'de, T: Deserialize<'de>, D: Deserializer<'de>>(of: D) -> Result<Vec<T>, D::Error> {
    let mut all = Vec::new();
    let mut more = 0;
    each(of, |one| {
        if all.len() < MOST_POINTS {
            all.push(one);
        } else {
            more += 1;
        }
    })?;
    if more > 0 {
        let n = MOST_POINTS + more;
        return Err(D::Error::custom(format!(
            "{n} results, and at most {MOST_POINTS} are imported"
        )));
    }
    Ok(all)
}

/// Reads a list entry by entry without storing it.
fn each<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    of: D,
    with: impl FnMut(T),
) -> Result<(), D::Error> {
    struct Each<T, F>(F, PhantomData<T>);
    impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Each<T, F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            while let Some(one) = list.next_element()? {
                (self.0)(one);
            }
            Ok(())
        }
    }
    of.deserialize_seq(Each(with, PhantomData))
}

/// A file format.
pub trait Format: Sync {
    /// Its name for `--format`.
    fn id(&self) -> &'static str;
    /// One line for help.
    fn about(&self) -> &'static str;
    /// A command that makes such a file, for hints.
    fn example(&self) -> &'static str;
    /// Whether the text is in this format.
    fn knows(&self, text: &str) -> bool;
    /// Parses it. The error says what is wrong and where.
    fn parse(&self, text: &str) -> Result<Found, String>;
}

/// A format of texts in which a line of a kind begins each result.
pub struct Results {
    id: &'static str,
    about: &'static str,
    example: &'static str,
    /// Whether a line begins a result.
    begins: fn(&str) -> bool,
    /// Adds a result.
    read: fn(&Section, &mut Found) -> Result<(), String>,
    /// What a file without points lacks.
    needs: &'static str,
}

impl Format for Results {
    fn id(&self) -> &'static str {
        self.id
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn example(&self) -> &'static str {
        self.example
    }

    fn knows(&self, text: &str) -> bool {
        text.lines().any(|l| (self.begins)(l.trim()))
    }

    fn parse(&self, text: &str) -> Result<Found, String> {
        short_lines(text)?;
        let mut found = Found::default();
        for result in lines::sections(text, self.begins) {
            (self.read)(&result, &mut found)?;
        }
        some(found, self.needs)
    }
}

/// Every format.
pub const ALL: &[&dyn Format] = &[
    &fio::Fio,
    &iozone::Iozone,
    &iometer::Iometer,
    &hyperfine::Hyperfine,
    &pgbench::Pgbench,
    &sysbench::Sysbench,
    &ab::Ab,
    &wrk::WRK,
    &iperf3::Iperf3,
    &netperf::Netperf,
    &ior::IOR,
    &mdtest::MDTEST,
    &diskspd::Diskspd,
    &crystaldiskmark::CRYSTAL_DISK_MARK,
    &elbencho::Elbencho,
    &dd::Dd,
];

/// Detects the format of a text.
pub fn detect(text: &str) -> Option<&'static dyn Format> {
    ALL.iter().copied().find(|f| f.knows(text))
}

/// Refuses an empty list of points.
fn some(found: Found, what: &str) -> Result<Found, String> {
    if found.points.is_empty() {
        let notes = found.notes.join("; ");
        let notes = if notes.is_empty() {
            notes
        } else {
            format!(" ({notes})")
        };
        return Err(format!("there is no {what} in it{notes}"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_format_file_is_listed() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/formats");
        let listed: Vec<&str> = ALL.iter().map(|f| f.id()).collect();
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(
                name == "mod" || listed.contains(&name),
                "add `&{name}::...` to ALL in formats/mod.rs"
            );
        }
        assert!(
            ALL.iter()
                .all(|f| !f.about().is_empty() && !f.example().is_empty())
        );
    }
}
