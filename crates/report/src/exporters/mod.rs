//! Formats a report can be written in: one file each, listed here.

use std::{io::Write, path::Path};

use anyhow::bail;

use crate::Report;

mod csv;
mod html;
mod json;
mod markdown;
mod rows;
mod terminal;

pub use terminal::{Style, print};

/// One format.
pub trait Exporter: Sync {
    /// Its name, such as `html`.
    fn id(&self) -> &'static str;
    /// File name endings, without the dot, that choose it.
    fn extensions(&self) -> &'static [&'static str];
    /// Writes the whole report.
    fn write(&self, report: &Report, out: &mut dyn Write) -> anyhow::Result<()>;
}

/// Every format.
pub const ALL: &[&dyn Exporter] = &[
    &html::Html,
    &json::Json,
    &csv::Csv,
    &markdown::Markdown,
    &terminal::Text,
];

/// The format that a file's name asks for.
pub fn for_path(path: &Path) -> anyhow::Result<&'static dyn Exporter> {
    let ending = path
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default()
        .to_lowercase();
    if let Some(found) = ALL
        .iter()
        .find(|e| e.extensions().contains(&ending.as_str()))
    {
        return Ok(*found);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_listed() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/exporters");
        let listed: Vec<&str> = ALL.iter().map(|e| e.id()).collect();
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            if name != "mod" && name != "rows" {
                assert!(
                    listed.contains(&name),
                    "add `&{name}::...` to ALL in exporters/mod.rs"
                );
            }
        }
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
