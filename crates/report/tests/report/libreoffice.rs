//! Workbooks as `LibreOffice` draws them: a number that is wider than its column is `###` there.

use std::{
    fs,
    io::{Cursor, Read, Write},
    path::Path,
    process::Command,
};

use layermark_report::{Report, render};
use layermark_testkit::fixtures::fixture;
use zip::{ZipArchive, ZipWriter, write::SimpleFileOptions};

/// One of each kind of sheet.
const DRAWN: [&str; 12] = [
    "beside",
    "buffer-size",
    "daily",
    "db",
    "devload",
    "durability",
    "file",
    "iops",
    "launch",
    "net",
    "steps",
    "sweep",
];

/// What `LibreOffice` draws in place of a number that does not fit.
const NO_ROOM: &str = "###";

/// The workbook with parts changed, by their names.
fn changed(book: &[u8], change: impl Fn(&str, String) -> String) -> Vec<u8> {
    let mut old = ZipArchive::new(Cursor::new(book)).expect("a workbook");
    let mut new = ZipWriter::new(Cursor::new(Vec::new()));
    for at in 0..old.len() {
        let mut part = old.by_index(at).expect("a part");
        let name = part.name().expect("a name").into_owned();
        let mut text = String::new();
        part.read_to_string(&mut text).expect("XML");
        new.start_file(&name, SimpleFileOptions::default())
            .expect("a part");
        new.write_all(change(&name, text).as_bytes())
            .expect("a part");
    }
    new.finish().expect("a workbook").into_inner()
}

/// Without print areas, so that all of it is drawn.
fn whole(book: &[u8]) -> Vec<u8> {
    changed(book, |name, text| {
        if name != "xl/workbook.xml" {
            return text;
        }
        let (before, rest) = text.split_once("<definedNames>").unwrap_or((&text, ""));
        let (_, after) = rest.split_once("</definedNames>").unwrap_or_default();
        format!("{before}{after}")
    })
}

/// With two characters in each column.
fn narrow(book: &[u8]) -> Vec<u8> {
    changed(book, |_, text| {
        let mut parts = text.split("<col ");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |made, part| {
            let (before, rest) = part.split_once("width=\"").expect("a width");
            let (_, after) = rest.split_once('"').expect("a width");
            format!("{made}<col {before}width=\"2\"{after}")
        })
    })
}

/// The words of each of these workbooks, as they are drawn.
fn drawn(dir: &Path, books: &[(&str, Vec<u8>)]) -> Vec<String> {
    let paths = books.iter().map(|(name, book)| {
        let path = dir.join(format!("{name}.xlsx"));
        fs::write(&path, book).expect("a workbook");
        path
    });
    let paths: Vec<_> = paths.collect();
    let profile = format!("-env:UserInstallation=file://{}/profile", dir.display());
    let mut soffice = Command::new("soffice");
    let soffice = soffice.args(["--headless", &profile, "--convert-to", "pdf", "--outdir"]);
    let said = soffice.arg(dir).args(&paths).output().expect("soffice");
    assert!(said.status.success(), "{said:?}");
    let words = paths.iter().map(|path| {
        let pdf = path.with_extension("pdf");
        let mut text = Command::new("pdftotext");
        let said = text.arg("-layout").arg(&pdf).arg("-").output();
        let said = said.expect("pdftotext");
        assert!(said.status.success(), "{}: {said:?}", pdf.display());
        String::from_utf8_lossy(&said.stdout).into_owned()
    });
    words.collect()
}

#[test]
fn every_number_fits_its_column() {
    let is_there = |program: &str, flag| Command::new(program).arg(flag).output().is_ok();
    if !is_there("soffice", "--version") || !is_there("pdftotext", "-v") {
        eprintln!("skipped: libreoffice-calc or poppler-utils is missing");
        return;
    }
    let book = |name: &str| {
        let kept = fixture(name).read();
        let report = Report::build(&kept.run, &kept.trials);
        let mut out = Vec::new();
        let exporter = render::for_path("x.xlsx".as_ref()).expect("a format");
        exporter.write(&report, &mut out).expect("a workbook");
        out
    };
    let mut books: Vec<(&str, Vec<u8>)> = DRAWN.map(|name| (name, whole(&book(name)))).to_vec();
    books.push(("narrow", narrow(&book("file"))));
    let dir = tempfile::tempdir().expect("a directory");
    let mut texts = drawn(dir.path(), &books);
    let narrow = texts.pop().expect("the last one");
    assert!(narrow.contains(NO_ROOM), "this test sees what it looks for");
    for (name, text) in DRAWN.iter().zip(&texts) {
        assert!(text.contains("native"), "{name}: it is drawn: {text}");
        let wide: Vec<&str> = text.lines().filter(|l| l.contains(NO_ROOM)).collect();
        assert!(wide.is_empty(), "{name}: {wide:#?}");
    }
}
