//! The first sheet: the findings, whether to trust them, and how to repeat the run.

use layermark_model::LayerStatus;
use rust_xlsxwriter::{Format, FormatAlign, Worksheet};

use super::{Result, bold, text};
use crate::{
    LayerReport, Reproduce,
    code_span::unmarked,
    page::{Content, Document, Part},
};

/// Widths of the columns, characters.
const WIDTHS: [f64; 4] = [34.0, 90.0, 40.0, 40.0];
/// What is found, above the layers.
const FOUND: &[&[Part]] = &[
    &[Part::Findings],
    &[Part::Layers],
    &[Part::Advice],
    &[Part::Trust],
];
/// What is below it.
const BELOW: &[&[Part]] = &[
    &[Part::Stack],
    &[Part::LeftOut],
    &[Part::Reproduce],
    &[Part::Trials],
];
/// Excel's limit of a row's height, points.
const HIGHEST: f64 = 409.0;

/// Lines, one below another.
struct Page<'a> {
    sheet: &'a mut Worksheet,
    row: u32,
    words: Format,
}

impl Page<'_> {
    fn line(&mut self, cells: &[&str], format: &Format) -> Result<()> {
        for (col, cell) in (0u16..).zip(cells) {
            self.sheet
                .write_string_with_format(self.row, col, text(cell), format)?;
        }
        self.row += 1;
        Ok(())
    }

    /// Wrapped cells, in a row as high as the longest of them needs.
    fn words(&mut self, cells: &[&str]) -> Result<()> {
        let format = self.words.clone();
        let lines = |(cell, width): (&&str, f64)| {
            let of_line = |line: &str| (line.chars().count() as f64 / width).ceil().max(1.0);
            cell.lines().map(of_line).sum::<f64>()
        };
        let lines = cells.iter().zip(WIDTHS).map(lines).fold(1.0, f64::max);
        let height = (lines * super::overview::LINE).min(HIGHEST);
        self.sheet.set_row_height(self.row, height)?;
        self.line(cells, &format)
    }

    fn head(&mut self, title: &str) -> Result<()> {
        self.row += 1;
        self.line(&[title], &bold().set_font_size(13))
    }

    /// Parts of the document, each with its heading.
    fn parts(&mut self, document: &Document, order: &[&[Part]]) -> Result<()> {
        for block in document.in_order(order) {
            self.head(&block.title)?;
            if let Content::Checks(checks) = &block.content {
                for item in *checks {
                    self.words(&[&item.title, &unmarked(&item.text), item.state.word()])?;
                }
            }
            for item in document.items(block.part) {
                let evidence = item.evidence.join(" ");
                let last = item.hint.unwrap_or(&evidence);
                // The text of what is left out begins with its layer.
                let layer = match block.part {
                    Part::LeftOut => "",
                    _ => item.layer,
                };
                self.words(&[layer, &unmarked(&item.text), last])?;
            }
        }
        Ok(())
    }
}

/// Fills the sheet. `room` is the number of trials that fit a sheet.
pub fn write(sheet: &mut Worksheet, document: &Document, room: u32) -> Result<()> {
    for (col, width) in (0u16..).zip(WIDTHS) {
        sheet.set_column_width(col, width)?;
    }
    let words = Format::new().set_text_wrap().set_align(FormatAlign::Top);
    let mut page = Page {
        sheet,
        row: 0,
        words,
    };
    page.line(&[&unmarked(document.headline())], &bold().set_font_size(16))?;
    for caveat in document.caveats() {
        page.line(&[&unmarked(caveat)], &bold())?;
    }
    page.line(&[document.line(Part::About)], &Format::new())?;
    page.line(&[document.about], &Format::new())?;
    page.parts(document, FOUND)?;
    for block in document.in_order(BELOW) {
        match &block.content {
            Content::Stack(stack) => layers(&mut page, stack.layers)?,
            Content::List(_) => page.parts(document, &[&[block.part]])?,
            Content::Reproduce(how) => reproduce(&mut page, &block.title, how)?,
            Content::Trials(all) => left_out(&mut page, all.len(), room)?,
            _ => {}
        }
    }
    page.head("Plan")?;
    if let Some(Content::Reproduce(how)) = document.part(Part::Reproduce).map(|b| &b.content) {
        for line in how.plan_toml.lines() {
            page.line(&[line], &Format::new())?;
        }
    }
    Ok(())
}

fn reproduce(page: &mut Page, title: &str, how: &Reproduce) -> Result<()> {
    page.head(title)?;
    page.words(&["with the plan below as plan.toml", &how.command])?;
    page.words(&["in the same order", &how.replay])
}

fn left_out(page: &mut Page, trials: usize, room: u32) -> Result<()> {
    if trials <= room as usize {
        return Ok(());
    }
    page.head("Not in this file")?;
    let kept = format!(
        "The sheet Trials has the first {room} of {trials} trials: a sheet has no more rows. -o trials.trials.csv has all."
    );
    page.words(&["trials", &kept])
}

fn layers(page: &mut Page, all: &[LayerReport]) -> Result<()> {
    page.head("Layers")?;
    for layer in all {
        let why = layer.reason.as_deref().unwrap_or_default();
        let hint = layer.hint.as_deref().unwrap_or_default();
        let state = match layer.status {
            LayerStatus::Failed => format!("could not be set up: {why}"),
            LayerStatus::LeftOut => format!("not measured: {why}"),
            LayerStatus::Ready if layer.control => "the baseline a second time".into(),
            LayerStatus::Ready if layer.baseline => "what the others are set against".into(),
            LayerStatus::Ready => format!("set up in {:.3} s", layer.setup_s),
        };
        page.words(&[&layer.name, &state, &layer.spec, hint])?;
    }
    Ok(())
}
