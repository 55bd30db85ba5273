//! A workbook. It has the verdict, a sheet for each section (study, cost model, record sizes) and
//! for each test, and iozone's own tables. The ratios of all layers with a chart, every result and
//! every trial follow.

use rust_xlsxwriter::{DocProperties, ExcelDateTime, Format, Workbook, Worksheet, XlsxError};

use super::{Files, Renderer};
use crate::{
    Section,
    page::{Document, Part},
};

mod lists;
mod matrix;
mod names;
mod overview;
mod section;
mod verdict;

use names::SheetNames;

/// See the module.
pub struct Xlsx;

impl Renderer for Xlsx {
    fn id(&self) -> &'static str {
        "xlsx"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["xlsx"]
    }

    fn draw(&self, document: &Document, out: &mut dyn Files) -> anyhow::Result<()> {
        let bytes = workbook(document, lists::ROWS)?.save_to_buffer()?;
        out.open("")?.write_all(&bytes)?;
        Ok(())
    }
}

type Result<T> = std::result::Result<T, XlsxError>;

/// Sheets of lists have at most `rows` lines below their head.
fn workbook(document: &Document, rows: u32) -> Result<Workbook> {
    let mut book = Workbook::new();
    book.set_properties(&properties(document)?);
    let mut names = SheetNames::default();
    // The answer first: the matrix, or the claims of a study.
    let has_study = document.sections(&[Part::Study]).next().is_some();
    let write_overview = |book: &mut Workbook, names: &mut SheetNames| {
        let name = names.next("Overview");
        overview::write(document, || sheet(book, name))
    };
    if !has_study {
        write_overview(&mut book, &mut names)?;
    }
    let write_section = |book: &mut Workbook, names: &mut SheetNames, of: &Section| {
        section::write(sheet(book, names.next(document.short_title(of)))?, of)
    };
    for of in document.sections(&[Part::Study]) {
        write_section(&mut book, &mut names, of)?;
    }
    verdict::write(sheet(&mut book, names.next("Verdict"))?, document, rows)?;
    for of in document.sections(&[Part::Answer, Part::Figures, Part::Model]) {
        write_section(&mut book, &mut names, of)?;
    }
    for test in document.size_sheets() {
        let name = names.next(&test.title);
        matrix::test(sheet(&mut book, name)?, &test, document.baseline)?;
    }
    for layer in document.iozone_sheets() {
        let name = names.next(&format!("iozone {}", layer.layer));
        matrix::iozone(sheet(&mut book, name)?, &layer)?;
    }
    if has_study {
        write_overview(&mut book, &mut names)?;
    }
    let mut list =
        |name: &str, table| lists::write(streamed(&mut book, names.next(name))?, table, rows);
    for (name, table) in document.lists() {
        list(name, table)?;
    }
    Ok(book)
}

/// The document's date is that of the run, so the same run gives the same file.
fn properties(document: &Document) -> Result<DocProperties> {
    let properties = DocProperties::new()
        .set_title(text(&format!("layermark: {}", document.plan)))
        .set_author(document.generated_by);
    let seconds = document
        .started
        .parse::<jiff::Timestamp>()
        .map_or(0, jiff::Timestamp::as_second);
    Ok(properties.set_creation_datetime(&ExcelDateTime::from_timestamp(seconds)?))
}

fn sheet(book: &mut Workbook, name: String) -> Result<&mut Worksheet> {
    Ok(printed(book.add_worksheet().set_name(name)?))
}

/// Page setup for printing: landscape A4, one page wide.
fn printed(sheet: &mut Worksheet) -> &mut Worksheet {
    const A4: u8 = 9;
    sheet
        .set_landscape()
        .set_paper_size(A4)
        .set_print_fit_to_pages(1, 0)
        .set_footer("&L&A&Rpage &P of &N")
}

/// A sheet whose rows are streamed to a temporary file.
fn streamed(book: &mut Workbook, name: String) -> Result<&mut Worksheet> {
    Ok(printed(
        book.add_worksheet_with_constant_memory()?.set_name(name)?,
    ))
}

/// Text that fits a cell: at most 32,767 UTF-16 units. Always stored as text, whatever its first
/// character.
fn text(of: &str) -> String {
    const LONGEST: usize = 32_767;
    let mut units = 0;
    of.chars()
        .take_while(|c| {
            units += c.len_utf16();
            units <= LONGEST
        })
        .collect()
}

fn bold() -> Format {
    Format::new().set_bold()
}

#[cfg(test)]
mod tests {
    use calamine::Reader;

    use super::*;

    #[test]
    fn text_that_is_too_long_is_cut() {
        assert_eq!(text(&"x".repeat(40_000)).len(), 32_767);
        assert_eq!(text("=1+1"), "=1+1");
    }

    #[test]
    fn more_trials_than_rows_are_cut_and_said() {
        let (run, trials) = layermark_testkit::sample::Sample::default().build();
        let report = crate::Report::build(&run, &trials);
        let mut book = workbook(&Document::new(&report), 7).unwrap();
        let bytes = std::io::Cursor::new(book.save_to_buffer().unwrap());
        let mut read = calamine::Xlsx::new(bytes).unwrap();
        for (name, lines) in [("Results", 7), ("Trials", 7)] {
            assert_eq!(read.worksheet_range(name).unwrap().height(), 1 + lines);
        }
        let verdict = read.worksheet_range("Verdict").unwrap();
        let words = format!("the first 7 of {} trials", report.trials.len());
        let said = |c: &calamine::Data| c.to_string().contains(&words);
        assert!(verdict.used_cells().any(|(_, _, c)| said(c)));
    }
}
