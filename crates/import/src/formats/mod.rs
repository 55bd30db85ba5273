//! One file for each format.

use layermark_model::ImportedPoint;

mod fio;
mod hyperfine;
mod iometer;
mod iozone;

/// What a file says.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    /// The program, with its version where the file tells.
    pub tool: String,
    /// When it was measured, in the file's own words.
    pub measured: Option<String>,
    /// What was skipped, and why.
    pub notes: Vec<String>,
    /// What was measured: one point at least.
    pub points: Vec<ImportedPoint>,
}

/// A kind of file.
pub trait Format: Sync {
    /// Its name for `--format`.
    fn id(&self) -> &'static str;
    /// One line for help.
    fn about(&self) -> &'static str;
    /// Whether the text is of this kind.
    fn knows(&self, text: &str) -> bool;
    /// Reads it. The error says what is wrong and where.
    fn parse(&self, text: &str) -> Result<Found, String>;
}

/// Every format.
pub const ALL: &[&dyn Format] = &[
    &fio::Fio,
    &iozone::Iozone,
    &iometer::Iometer,
    &hyperfine::Hyperfine,
];

/// The format that a text is in.
pub fn detect(text: &str) -> Option<&'static dyn Format> {
    ALL.iter().copied().find(|f| f.knows(text))
}

/// An empty list of points is no result.
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
        assert!(ALL.iter().all(|f| !f.about().is_empty()));
    }
}
