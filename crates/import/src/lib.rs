//! Reads the result files of other programs, for comparison with ours.
//!
//! To add a format, write `formats/NAME.rs` and its line in [`formats::ALL`].

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use layermark_model::Import;

mod document;
pub mod formats;
mod lines;
mod values;

pub use formats::{Format, Found};

/// Largest file that is read, bytes. A parser keeps only a part of it.
pub const LARGEST: u64 = 64 << 20;

/// Why a file is not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("{path} cannot be read: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is above [`LARGEST`].
    #[error("{path} has more than {} MiB, the most that is read", LARGEST >> 20, path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is not text in UTF-8.
    #[error("{path} is not UTF-8 text: {what}", path = path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// What it is instead, or the first invalid byte.
        what: String,
        /// What to do about it.
        hint: String,
    },
    /// No format knows it.
    #[error("{path} is in none of the formats known: {known}", path = path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Ids of the formats.
        known: String,
    },
    /// No such format.
    #[error("unknown format `{id}`; known are {known}")]
    NoFormat {
        /// The requested id.
        id: String,
        /// Ids of the formats.
        known: String,
    },
    /// The file is not valid in its format.
    #[error("{path}, read as {format}: {reason}", path = path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// The format's id.
        format: &'static str,
        /// What is wrong, with the place.
        reason: String,
    },
}

impl ImportError {
    /// A hint: what to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { path, .. } => format!("ls -l {}", path.display()),
            Self::TooLarge { .. } => {
                "fio: leave out --write_lat_log and the bins of json+ with --output-format=json"
                    .into()
            }
            Self::NotText { hint, .. } => hint.clone(),
            Self::Unknown { .. } => {
                "make one: fio --output-format=json --output=FILE JOB; iozone -a -R > FILE; hyperfine --export-json FILE COMMAND".into()
            }
            Self::NoFormat { .. } => "layermark import FILE --format fio".into(),
            Self::Bad { format, .. } => {
                let known = formats::ALL.iter().find(|f| f.id() == *format);
                known.map(|f| f.example().into()).unwrap_or_default()
            }
        }
    }
}

/// Reads a file. Without `format`, it is detected from the content. The caller sets `id` and
/// `imported_ms`.
pub fn read(path: &Path, format: Option<&str>) -> Result<Import, ImportError> {
    let chosen = format.map(find).transpose()?;
    let text = read_text(path)?;
    let format = match chosen {
        Some(format) => format,
        None => formats::detect(&text).ok_or_else(|| ImportError::Unknown {
            path: path.into(),
            known: known(),
        })?,
    };
    let found = format.parse(&text).map_err(|reason| ImportError::Bad {
        path: path.into(),
        format: format.id(),
        reason,
    })?;
    Ok(Import {
        id: String::new(),
        imported_ms: 0,
        file: path.display().to_string(),
        format: format.id().into(),
        tool: found.tool,
        measured: found.measured,
        notes: found.notes,
        points: found.points,
    })
}

fn known() -> String {
    let ids: Vec<&str> = formats::ALL.iter().map(|f| f.id()).collect();
    ids.join(", ")
}

fn find(id: &str) -> Result<&'static dyn Format, ImportError> {
    let found = formats::ALL.iter().copied().find(|f| f.id() == id);
    found.ok_or_else(|| ImportError::NoFormat {
        id: id.into(),
        known: known(),
    })
}

/// Reads the file as text of at most [`LARGEST`] bytes, without a byte order mark. A file of gzip is
/// unpacked.
///
/// # Errors The file cannot be read, is larger, also unpacked, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, ImportError> {
    let fail = |source| ImportError::Read {
        path: path.into(),
        source,
    };
    let file = File::open(path).map_err(fail)?;
    let too_large = || ImportError::TooLarge { path: path.into() };
    if file.metadata().map_err(fail)?.len() > LARGEST {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // Pipes and /proc have no length.
    file.take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    // gzip: RFC 1952, section 2.3.1.
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let packed = std::mem::take(&mut bytes);
        let unpacked = flate2::read::MultiGzDecoder::new(packed.as_slice());
        unpacked
            .take(LARGEST + 1)
            .read_to_end(&mut bytes)
            .map_err(fail)?;
    }
    if bytes.len() as u64 > LARGEST {
        return Err(too_large());
    }
    let mut text = String::from_utf8(bytes).map_err(|e| not_text(path, &e))?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

/// What a file is that is not UTF-8, by its first bytes.
fn not_text(path: &Path, e: &std::string::FromUtf8Error) -> ImportError {
    let bytes = e.as_bytes();
    let shown = shell_words::quote(&path.to_string_lossy()).into_owned();
    let convert = |from: &str| format!("iconv -f {from} -t UTF-8 {shown} > {shown}.utf8");
    let utf16 = [[0xff, 0xfe], [0xfe, 0xff]];
    let sheet: [&[u8]; 2] = [b"PK\x03\x04", b"\xd0\xcf\x11\xe0"];
    let (what, hint) = if utf16.iter().any(|mark| bytes.starts_with(mark)) {
        (
            "it is UTF-16, as PowerShell writes it".into(),
            convert("UTF-16"),
        )
    } else if sheet.iter().any(|mark| bytes.starts_with(mark)) {
        let hint =
            "import the text that the program printed (iozone -R > FILE), or save the sheet as CSV";
        ("it is a spreadsheet".into(), hint.into())
    } else {
        let at = e.utf8_error().valid_up_to();
        let what = format!("byte {at} fits no character");
        (what, convert("LATIN1"))
    };
    ImportError::NotText {
        path: path.into(),
        what,
        hint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(bytes: &[u8]) -> String {
        let temp = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(temp.path(), bytes).unwrap();
        let error = read(temp.path(), None).unwrap_err();
        assert!(!error.hint().is_empty());
        error.to_string()
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        assert!(import(b"\xff\xfe{\0").contains("it is UTF-16"));
        assert!(import(b"{\"name\": \"me\xdfung\"}").contains("byte 12"));
        assert!(import(b"\xd0\xcf\x11\xe0").contains("spreadsheet"));
        assert!(
            import(b"")
                .contains("none of the formats known: fio, iozone, iometer, hyperfine, pgbench")
        );
        let e = read(Path::new("/nonexistent/x.json"), None).unwrap_err();
        assert!(e.to_string().contains("/nonexistent/x.json cannot be read"));
        let e = read(Path::new("/dev/null"), Some("bonnie")).unwrap_err();
        assert!(e.to_string().contains("unknown format `bonnie`"));
        assert!(read(Path::new("/"), None).is_err());
    }

    #[test]
    fn a_file_of_a_gigabyte_is_refused_and_not_read() {
        let temp = tempfile::NamedTempFile::new().unwrap();
        temp.as_file().set_len(1 << 30).unwrap();
        let e = read(temp.path(), None).unwrap_err().to_string();
        assert!(e.contains("more than 64 MiB"), "{e}");
        // A file without a length that never ends.
        let e = read(Path::new("/dev/zero"), Some("fio")).unwrap_err();
        assert!(matches!(e, ImportError::TooLarge { .. }), "{e}");
    }
}
