//! Recognises files that layermark wrote, by the mark in every format.

use std::{
    fs::File,
    io::{self, Read, Seek},
};

use super::{ALL, Exporter};

/// Whether one of the formats wrote this file. An empty file may also be overwritten.
pub fn is_own(file: &mut File) -> io::Result<bool> {
    const HEAD: u64 = 4096;
    let mut head = Vec::new();
    file.take(HEAD).read_to_end(&mut head)?;
    if head.is_empty() {
        return Ok(true);
    }
    for exporter in ALL {
        file.rewind()?;
        if wrote(*exporter, &head, file) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn wrote(exporter: &dyn Exporter, head: &[u8], file: &mut File) -> bool {
    exporter.is_own(&String::from_utf8_lossy(head), file)
}

/// The text before the version in every mark.
pub(super) const NAME: &str = "layermark ";

/// The version after our name in the first line of a text, if there is one.
pub(super) fn own_line(head: &str) -> Option<&str> {
    let rest = head.lines().next()?.strip_prefix(NAME)?;
    rest.starts_with(|c: char| c.is_ascii_digit())
        .then_some(rest)
}

/// Whether a CSV text starts with these columns. Later versions add some at the end.
pub(super) fn has_columns<'a>(head: &str, columns: impl Iterator<Item = &'a str>) -> bool {
    let first: Vec<&str> = columns.take(8).collect();
    let mut own = head.lines().next().unwrap_or_default().split(',');
    first.iter().all(|column| own.next() == Some(column))
}

/// A PNG with an added text chunk before the picture's data.
pub(super) fn marked_png(png: &[u8], mark: &str) -> Vec<u8> {
    // Signature, then the header's chunk: length, name, 13 bytes, checksum.
    const HEAD: usize = 8 + 4 + 4 + 13 + 4;
    let chunk = [b"tEXtSoftware\0", mark.as_bytes()].concat();
    let (head, rest) = png.split_at(HEAD.min(png.len()));
    let length = (chunk.len() - 4) as u32;
    [
        head,
        &length.to_be_bytes(),
        &chunk,
        &crc(&chunk).to_be_bytes(),
        rest,
    ]
    .concat()
}

/// The checksum of PNG's chunks (CRC-32).
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use layermark_testkit::sample::Sample;

    use crate::{Report, exporters::for_path};

    fn is_own_text(bytes: &[u8]) -> bool {
        let path = std::env::temp_dir().join(format!("layermark-own-{}", std::process::id()));
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        is_own(&mut file).unwrap()
    }

    #[test]
    fn every_format_knows_its_own_files() {
        let (run, trials) = Sample::default().build();
        let report = Report::build(&run, &trials);
        for exporter in ALL {
            for ending in exporter.extensions() {
                let path = format!("r.{ending}");
                let mut out = Vec::new();
                for_path(path.as_ref())
                    .unwrap()
                    .write(&report, &mut out)
                    .unwrap();
                assert!(is_own_text(&out), "{path}");
            }
        }
    }

    #[test]
    fn files_of_others_are_not_ours() {
        assert!(is_own_text(b""));
        for text in [
            "# My notes about layermark 0.1.0\n",
            "run,distance\n1,2\n",
            "{\"results\": []}",
            "<!DOCTYPE html><html><head><meta name=\"generator\" content=\"Hugo\"></head>layermark 1",
            "<svg xmlns=\"http://www.w3.org/2000/svg\"/>",
            "PK\u{3}\u{4} no workbook at all",
            "\u{89}PNG\r\n\u{1a}\n",
        ] {
            assert!(!is_own_text(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn the_checksum_is_that_of_png() {
        assert_eq!(crc(b"IEND"), 0xae42_6082);
    }
}
