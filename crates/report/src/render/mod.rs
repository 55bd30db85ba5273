//! Formats of a report: one file each, listed here.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::bail;
use maud::Markup;

use crate::{
    FleetCheck, FleetReport, ImportComparison, ManyRuns, Report, Safety, Why,
    page::Document,
    views::{external, fleet, odd, why},
};

mod bencher;
mod card;
mod csv;
mod github_benchmark;
mod html;
mod hyperfine;
mod iozone;
mod json;
mod junit;
mod markdown;
mod openmetrics;
mod png;
mod svg;
mod terminal;
mod xlsx;

pub use html::{STYLE, trend, trend_page};
pub use terminal::{Growing, Style};

pub use crate::page::cell::Unit;

/// A format for readers: it draws the document, and computes nothing.
pub trait Renderer: Sync {
    /// Its name, such as `html`.
    fn id(&self) -> &'static str;
    /// See [`Exporter::extensions`].
    fn extensions(&self) -> &'static [&'static str];
    /// Draws the parts of the document that it has, in its order.
    fn draw(&self, document: &Document, out: &mut dyn Files) -> anyhow::Result<()>;
}

impl<R: Renderer> Exporter for R {
    fn id(&self) -> &'static str {
        Renderer::id(self)
    }

    fn extensions(&self) -> &'static [&'static str] {
        Renderer::extensions(self)
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        self.draw(&Document::new(report), out)
    }
}

/// Prints the answer: see [`terminal::print`].
pub fn print(report: &Report, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    terminal::print(&Document::new(report), style, out)
}

/// Prints the complete report.
pub fn print_full(report: &Report, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    terminal::print_full(&Document::new(report), style, out)
}

/// Prints the answers about a directory, a line each.
pub fn print_safety(of: &Safety, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    terminal::print_safety(of, style, out)
}

/// Prints why a command is slow in layers.
pub fn print_why(of: &Why, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    terminal::print_section(&why::section(of), style, out)
}

/// Prints how each of several runs compares with the others.
pub fn print_odd(of: &ManyRuns, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    terminal::print_section(&odd::section(of), style, out)
}

/// Prints which hosts of a fleet are odd.
pub fn print_fleet_check(of: &FleetCheck, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    terminal::print_section(&fleet::check(of), style, out)
}

/// Prints how a shared store behaves under one, some and all hosts.
pub fn print_fleet(of: &FleetReport, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    terminal::print_section(&fleet::run(&of.found), style, out)
}

/// Writes a check of a fleet as `JUnit` XML.
pub fn fleet_junit(of: &FleetCheck, out: &mut dyn Write) -> anyhow::Result<()> {
    junit::write_fleet(of, out)
}

/// Prints two imports next to each other.
pub fn print_imports(
    of: &ImportComparison,
    style: Style,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    terminal::print_section(&external::comparison(of), style, out)
}

/// The matrix alone, for the page of a running run.
pub fn live_matrix(report: &Report) -> Markup {
    html::live_matrix(&Document::new(report))
}

/// The comparison of two runs, for a page with its own head.
pub fn comparison(report: &Report) -> Markup {
    html::comparison(&Document::new(report))
}

/// One format. Formats for programs are made from the report's data.
pub trait Exporter: Sync {
    /// Its name, such as `html`.
    fn id(&self) -> &'static str;
    /// File name endings that select it, without the first dot; the longest match wins. An ending
    /// with a dot is also a whole file name: `iozone.txt`.
    fn extensions(&self) -> &'static [&'static str];
    /// What the format is made of, where a report has none of it: the file is then empty.
    fn lacks(&self, _report: &Report) -> Option<&'static str> {
        None
    }
    /// Writes the whole report.
    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()>;
}

/// The output files of an exporter. Most formats write one.
pub trait Files {
    /// Opens the next file. `""` is the named file; another part goes between the stem and the
    /// ending of its name. The file opened before is complete.
    fn open(&mut self, part: &str) -> anyhow::Result<&mut dyn Write>;
}

/// All files, one after another.
impl<W: Write> Files for W {
    fn open(&mut self, _: &str) -> anyhow::Result<&mut dyn Write> {
        Ok(self)
    }
}

/// Every format.
pub const ALL: &[&dyn Exporter] = &[
    &html::Html,
    &json::Json,
    &csv::RESULTS,
    &csv::WIDE,
    &csv::TRIALS,
    &csv::SECTIONS,
    &markdown::BRIEF,
    &markdown::FULL,
    &iozone::Iozone,
    &xlsx::Xlsx,
    &svg::Svg,
    &png::Png,
    &card::CARD,
    &card::PICTURE,
    &csv::LAUNCHES,
    &hyperfine::Hyperfine,
    &junit::Junit,
    &bencher::Bencher,
    &github_benchmark::GithubBenchmark,
    &openmetrics::OpenMetrics,
    &terminal::Text,
];

/// The format for a file's name.
pub fn for_path(path: &Path) -> anyhow::Result<&'static dyn Exporter> {
    if let Some((exporter, _)) = parse(path) {
        return Ok(exporter);
    }
    let known: Vec<String> = ALL
        .iter()
        .flat_map(|e| e.extensions())
        .map(|e| format!(".{e}"))
        .collect();
    bail!(
        "{}: no format has this ending; known are {}",
        path.display(),
        known.join(" ")
    )
}

/// The name of a part's file: `charts.svg` and `forest` give `charts-forest.svg`.
pub fn part_path(path: &Path, part: &str) -> PathBuf {
    let name = path.file_name().and_then(|n| n.to_str());
    match (name, parse(path)) {
        (Some(name), Some((_, stem))) if !part.is_empty() => {
            let (stem, ending) = name.split_at(stem);
            path.with_file_name(format!("{stem}-{part}{ending}"))
        }
        _ => path.to_path_buf(),
    }
}

/// The format, and the length of the name before its ending.
fn parse(path: &Path) -> Option<(&'static dyn Exporter, usize)> {
    let name = path.file_name()?.to_str()?;
    // Compared without lowercasing the whole name, because some letters change their length.
    let fits = |ending: &&str| -> Option<usize> {
        if name.eq_ignore_ascii_case(ending) {
            return name.rfind('.');
        }
        let stem = name.len().checked_sub(ending.len() + 1)?;
        let own = name.get(stem..)?.strip_prefix('.')?;
        (stem > 0 && own.eq_ignore_ascii_case(ending)).then_some(stem)
    };
    let all = ALL
        .iter()
        .flat_map(|e| e.extensions().iter().map(move |ending| (*e, ending)));
    all.filter_map(|(e, ending)| Some((e, ending.len(), fits(ending)?)))
        .max_by_key(|(_, length, _)| *length)
        .map(|(e, _, stem)| (e, stem))
}

/// Parts of file names from names of layers and charts: plain letters, each only once.
#[derive(Default)]
struct PartNames(Vec<String>);

impl PartNames {
    fn next(&mut self, name: &str) -> String {
        const LONGEST: usize = 80;
        let plain = |c: char| {
            let kept = c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
            if kept { c } else { '-' }
        };
        let mut stem: String = name.chars().take(LONGEST).map(plain).collect();
        while stem.contains("--") {
            stem = stem.replace("--", "-");
        }
        let stem = stem.trim_matches(['-', '.']);
        let stem = if stem.is_empty() { "part" } else { stem };
        let mut own = stem.to_owned();
        let mut again = 1;
        while self.0.contains(&own) {
            again += 1;
            own = format!("{stem}-{again}");
        }
        self.0.push(own.clone());
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_listed() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/render");
        let listed: Vec<&str> = ALL.iter().map(|e| e.id()).collect();
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            if name != "mod" {
                assert!(
                    listed.contains(&name),
                    "add `&{name}::...` to ALL in render/mod.rs"
                );
            }
        }
    }

    #[test]
    fn the_longest_ending_chooses_and_parts_go_before_it() {
        let id = |name: &str| for_path(Path::new(name)).map(Exporter::id).ok();
        for (name, expected) in [
            ("a/r.csv", "csv"),
            ("r.wide.csv", "csv_wide"),
            ("r.trials.CSV", "csv_trials"),
            ("r.sections.csv", "csv_sections"),
            ("iozone.txt", "iozone"),
            ("r.iozone.txt", "iozone"),
            ("r.iozone", "iozone"),
            ("r.md", "markdown"),
            ("r.full.md", "markdown_full"),
            ("notes.txt", "terminal"),
            ("my-iozone.txt", "terminal"),
        ] {
            assert_eq!(id(name), Some(expected), "{name}");
        }
        for refused in ["csv", ".csv", "iozone", "a/.html"] {
            assert_eq!(id(refused), None, "{refused}");
        }
        for (name, expected) in [
            ("a/iozone.txt", "a/iozone-fuse.txt"),
            ("x.iozone.TXT", "x-fuse.iozone.TXT"),
            ("a.b.iozone", "a.b-fuse.iozone"),
            // One of these is a byte shorter in lower case, and `\u{130}` is a byte longer.
            ("\u{1e9e}.svg", "\u{1e9e}-fuse.svg"),
            ("\u{130}.SVG", "\u{130}-fuse.SVG"),
        ] {
            assert_eq!(part_path(Path::new(name), "fuse"), Path::new(expected));
            assert_eq!(part_path(Path::new(name), ""), Path::new(name));
        }
    }

    #[test]
    fn parts_are_plain_and_unique() {
        let mut names = PartNames::default();
        let made = ["loop:xfs", "loop-xfs", "../../etc", "\u{1b}[31m", ""].map(|n| names.next(n));
        assert_eq!(made, ["loop-xfs", "loop-xfs-2", "etc", "31m", "part"]);
    }

    #[test]
    fn a_path_chooses_its_format_and_an_unknown_one_lists_them() {
        for exporter in ALL {
            for ending in exporter.extensions() {
                assert_eq!(
                    for_path(Path::new(&format!("a/b.{}", ending.to_uppercase())))
                        .unwrap()
                        .id(),
                    exporter.id()
                );
            }
        }
        let error = for_path(Path::new("report.xyz")).err().unwrap().to_string();
        assert!(
            error.contains("report.xyz") && error.contains(".json"),
            "{error}"
        );
        assert!(for_path(Path::new("report")).is_err());
    }
}
