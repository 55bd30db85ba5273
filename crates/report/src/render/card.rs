//! The answer as one picture to share: headline, matrix, machine and date.

use kuva::{
    backend::png::PngBackend,
    prelude::SvgBackend,
    render::{
        color::Color,
        render::{Primitive, Scene, TextAnchor},
    },
};

use super::{Files, Renderer};
use crate::{
    TrustState, Verdict,
    code_span::unmarked,
    number::{self, count},
    page::{
        Document, Item, Part,
        cell::MatrixCell,
        matrix::{Matrix, MatrixRow},
        name_parts,
        results::Results,
        shade::{self, Shade},
    },
};

/// Pixels of the picture: the size of a link's preview.
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 675.0;
/// Blank border.
const EDGE: f64 = 36.0;
/// Most columns and rows that are readable.
const LAYERS: usize = 14;
const POINTS: usize = 15;
/// Most layers with a line of their own: with times, or in two columns without.
const IN_SHORT: usize = 4;
const IN_COLUMNS: usize = 16;
/// Lines of the headline.
const LINES: usize = 3;
/// Height of the scale, the legend and the two lines about the run.
const FOOT: f64 = 88.0;
/// Between two lines of a hatched cell.
const HATCH: f64 = 6.0;
/// Width of the labels.
const LABEL: f64 = 264.0;

const INK: &str = "#1a1e23";
const MUTED: &str = "#59626c";
const WARNING: &str = "#b34700";

/// See the module.
pub struct Card {
    id: &'static str,
    endings: &'static [&'static str],
    as_pixels: bool,
}

/// As a vector drawing.
pub static CARD: Card = Card {
    id: "card",
    endings: &["card.svg"],
    as_pixels: false,
};
/// As pixels.
pub static PICTURE: Card = Card {
    id: "card_png",
    endings: &["png", "card.png"],
    as_pixels: true,
};

impl Renderer for Card {
    fn id(&self) -> &'static str {
        self.id
    }

    fn extensions(&self) -> &'static [&'static str] {
        self.endings
    }

    fn draw(&self, document: &Document, out: &mut dyn Files) -> anyhow::Result<()> {
        let scene = scene(document);
        let bytes = if self.as_pixels {
            png(&scene)?
        } else {
            svg(document, &scene).into_bytes()
        };
        Ok(out.open("")?.write_all(&bytes)?)
    }
}

fn svg(document: &Document, scene: &Scene) -> String {
    let drawn = SvgBackend.render_scene(scene);
    let body = drawn.split_once('>').map_or("", |(_, body)| body);
    let title = format!("{}.", unmarked(document.headline()));
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- {} -->\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-labelledby=\"card-t\" font-family=\"'DejaVu Sans', Verdana, sans-serif\">\
         <title id=\"card-t\">{title}</title>{body}\n",
        document.generated_by,
    )
}

fn png(scene: &Scene) -> anyhow::Result<Vec<u8>> {
    let png = PngBackend::new().with_scale(1.0).render_scene(scene);
    png.map_err(|e| anyhow::anyhow!("the picture cannot be drawn: {e}"))
}

fn scene(document: &Document) -> Scene {
    let mut page = Page(vec![rect(
        0.0,
        0.0,
        WIDTH,
        HEIGHT,
        Color::Rgb(255, 255, 255),
    )]);
    let top = page.headline(document);
    let bottom = HEIGHT - EDGE - FOOT;
    let ratios = document.matrix().map(Matrix::ratios);
    let count_of = |all: &Matrix| (all.columns.len(), all.rows.len());
    let (layers, points) = ratios.as_ref().map_or((0, 0), count_of);
    let drawn = ratios.filter(|_| layers > 0);
    let mut notes = Vec::new();
    if let Some(all) = drawn.map(|all| all.largest(POINTS)) {
        page.matrix(&all, top + 14.0, bottom);
        page.scale(bottom + 14.0);
        notes.push(all.legend());
        if points > all.rows.len() {
            notes.push(count(points - all.rows.len(), "more operation"));
        }
    } else {
        page.times(document, top + 14.0);
    }
    page.trust(document, bottom + 27.0);
    if layers > LAYERS {
        notes.push(count(layers - LAYERS, "more layer"));
    }
    let (notes, room) = (notes.join("; "), WIDTH - 2.0 * EDGE);
    let size = fitting(&notes, room, 12).max(SMALL);
    let notes = cut(&notes, room, size);
    page.text(EDGE, HEIGHT - EDGE - 40.0, &notes, size, MUTED);
    page.machine(document);
    Scene {
        background_color: Some("#ffffff".into()),
        text_color: Some(INK.into()),
        elements: page.0,
        ..Scene::new(WIDTH, HEIGHT)
    }
}

/// The shapes drawn so far.
struct Page(Vec<Primitive>);

impl Page {
    /// Headline and caveats. Returns the height they end at.
    fn headline(&mut self, document: &Document) -> f64 {
        let text = format!("{}.", unmarked(document.headline()));
        let room = WIDTH - 2.0 * EDGE;
        let sizes = [30, 26, 22, 18];
        let fits = |size: &u32| bold_wrapped(&text, room, *size).len() < LINES;
        let size = sizes.into_iter().find(fits).unwrap_or(18);
        let mut y = EDGE - 8.0;
        for line in bold_wrapped(&text, room, size).iter().take(LINES) {
            y += f64::from(size) * 1.25;
            self.bold(EDGE, y, line, size, INK);
        }
        for caveat in document.caveats() {
            y += 24.0;
            let text = format!("! {}.", unmarked(caveat));
            self.bold(EDGE, y, &cut(&text, room / 1.12, 16), 16, WARNING);
        }
        y + self.in_short(document.items(Part::InShort), y)
    }

    /// A line for each layer below this height. Returns the height of all.
    fn in_short(&mut self, items: &[Item], top: f64) -> f64 {
        let room = WIDTH - 2.0 * EDGE;
        if items.len() <= IN_SHORT {
            for (n, item) in (1..).zip(items) {
                let line = cut(&unmarked(&item.text), room, 14);
                self.text(EDGE, top + 21.0 * f64::from(n), &line, 14, INK);
            }
            return 21.0 * items.len() as f64;
        }
        // The line that counts the others takes the place of one.
        let shown = if items.len() > IN_COLUMNS {
            IN_COLUMNS - 1
        } else {
            items.len()
        };
        let lines = items[..shown].iter().map(|item| unmarked(item.brief()));
        let more = (items.len() > shown).then(|| count(items.len() - shown, "more layer"));
        let lines: Vec<String> = lines.chain(more).collect();
        let (rows, column) = (lines.len().div_ceil(2), room / 2.0);
        // The longest decides for all: letters of several sizes would seem to mean something.
        let sizes = lines.iter().map(|line| fitting(line, column - 12.0, 13));
        let size = sizes.min().unwrap_or(SMALL).max(SMALL);
        for (n, line) in lines.iter().enumerate() {
            let x = EDGE + column * (n / rows) as f64;
            let y = top + 18.0 * (n % rows + 1) as f64;
            self.text(x, y, &cut(line, column - 12.0, size), size, INK);
        }
        18.0 * rows as f64
    }

    /// Operations as rows, layers as columns, each cell with the colour of its ratio.
    fn matrix(&mut self, all: &Matrix, top: f64, bottom: f64) {
        let shown = all.columns.len().min(LAYERS);
        let column = ((WIDTH - 2.0 * EDGE - LABEL) / shown as f64).min(120.0);
        let columns = all.columns.iter().take(shown);
        let heads: Vec<Vec<String>> = columns.map(|column| parts(&column.head)).collect();
        let lines = heads.iter().map(Vec::len).max().unwrap_or(0);
        let size = if shown > 8 { 11 } else { 13 };
        let head = lines as f64 * (f64::from(size) + 3.0) + 8.0;
        let row = ((bottom - top - head) / all.rows.len().max(1) as f64).clamp(12.0, 40.0);
        for (n, parts) in heads.iter().enumerate() {
            let middle = EDGE + LABEL + column * (n as f64 + 0.5);
            for (line, part) in parts.iter().enumerate() {
                let from_last = (parts.len() - 1 - line) as f64;
                let y = top + head - 8.0 - from_last * (f64::from(size) + 3.0);
                self.centred(middle, y, &cut(part, column - 4.0, size), size, MUTED);
            }
        }
        let letters = (row * 0.55).clamp(9.0, 15.0) as u32;
        for (n, MatrixRow { label, cells, .. }) in all.rows.iter().enumerate() {
            let y = top + head + row * n as f64;
            let base = y + row / 2.0 + f64::from(letters) * 0.36;
            self.text(EDGE, base, &cut(label, LABEL, letters), letters, INK);
            for (n, cell) in cells.iter().take(shown).enumerate() {
                let x = EDGE + LABEL + column * n as f64;
                self.cell(cell, &all.text(cell), [x, y, column, row], base, letters);
            }
        }
    }

    fn cell(&mut self, cell: &MatrixCell, text: &str, at: [f64; 4], base: f64, size: u32) {
        let [x, y, width, height] = at;
        let fill = fill(cell.shade.unwrap_or(Shade::Open));
        self.0
            .push(rect(x + 1.0, y + 1.0, width - 2.0, height - 2.0, fill));
        if cell.is_hatched() {
            self.hatch([x + 1.0, y + 1.0, width - 2.0, height - 2.0]);
        }
        let unknown = matches!(cell.verdict, None | Some(Verdict::Undecided));
        let ink = if unknown { MUTED } else { INK };
        let size = fitting(text, width, size);
        self.centred(x + width / 2.0, base, text, size, ink);
    }

    /// Thin lines through a rectangle, from its lower to its upper edge.
    fn hatch(&mut self, [x, y, width, height]: [f64; 4]) {
        let mut start = x - height;
        while start < x + width {
            // The part of the line that is inside.
            let (from, to) = (start.max(x), (start + height).min(x + width));
            self.0.push(Primitive::Line {
                x1: from,
                y1: y + height - (from - start),
                x2: to,
                y2: y + height - (to - start),
                stroke: Color::Rgb(0x7a, 0x83, 0x8d),
                stroke_width: 0.7,
                stroke_dasharray: None,
            });
            start += HATCH;
        }
    }

    /// The time of each operation, where nothing is compared.
    fn times(&mut self, document: &Document, top: f64) {
        let lines = document.results().into_iter().flat_map(Results::lines);
        for (n, line) in lines.take(POINTS).enumerate() {
            let y = top + 26.0 * (n + 1) as f64;
            self.text(EDGE, y, &cut(line.label, 2.0 * LABEL, 15), 15, INK);
            let time = line.op_us.map_or("-".into(), number::time);
            self.text(EDGE + 2.0 * LABEL + 16.0, y, &time, 15, INK);
        }
    }

    /// Whether to believe it, and how many checks passed, at the right edge.
    fn trust(&mut self, document: &Document, y: f64) {
        let (mark, colour) = match document.trust_mark() {
            TrustState::Warn => ("!", WARNING),
            TrustState::Ok | TrustState::None => ("\u{2713}", MUTED),
        };
        if !document.checks().is_empty() {
            let found = unmarked(document.note(Part::Trust).unwrap_or_default());
            let text = format!("{mark} trust: {found}");
            let size = fitting(&text, TRUST, 12).max(SMALL);
            let text = cut(&text, TRUST, size);
            self.0.push(words(
                WIDTH - EDGE,
                y,
                &text,
                size,
                colour,
                TextAnchor::End,
                false,
            ));
        }
    }

    /// What each shade means.
    fn scale(&mut self, y: f64) {
        let mut x = EDGE;
        for (word, shade) in [
            ("slower", Shade::Slower as fn(usize) -> Shade),
            ("faster", Shade::Faster),
        ] {
            self.text(x, y + 13.0, word, 12, MUTED);
            x += 56.0;
            for (step, text) in (1..).zip(shade::scale()) {
                self.0.push(rect(x, y, 52.0, 18.0, fill(shade(step))));
                self.centred(x + 26.0, y + 13.0, &text, 11, INK);
                x += 53.0;
            }
            x += 28.0;
        }
    }

    /// Machine, date, and the program.
    fn machine(&mut self, document: &Document) {
        let m = document.machine;
        let machine = format!(
            "{}, {}, {} of memory, {}, {}{}",
            m.cpu,
            count(m.cpus as usize, "CPU"),
            number::bytes(m.memory as f64),
            m.os,
            m.base,
            if m.hypervisor {
                ", virtual machine"
            } else {
                ""
            }
        );
        let room = WIDTH - 2.0 * EDGE;
        self.text(
            EDGE,
            HEIGHT - EDGE - 18.0,
            &cut(&machine, room, 13),
            13,
            INK,
        );
        let about = format!(
            "{}, {}; {}",
            document.started,
            document.line(Part::About),
            document.generated_by
        );
        self.text(EDGE, HEIGHT - EDGE + 2.0, &cut(&about, room, 13), 13, MUTED);
    }

    fn text(&mut self, x: f64, y: f64, text: &str, size: u32, colour: &str) {
        self.0
            .push(words(x, y, text, size, colour, TextAnchor::Start, false));
    }

    fn bold(&mut self, x: f64, y: f64, text: &str, size: u32, colour: &str) {
        self.0
            .push(words(x, y, text, size, colour, TextAnchor::Start, true));
    }

    fn centred(&mut self, x: f64, y: f64, text: &str, size: u32, colour: &str) {
        self.0
            .push(words(x, y, text, size, colour, TextAnchor::Middle, false));
    }
}

fn rect(x: f64, y: f64, width: f64, height: f64, fill: Color) -> Primitive {
    Primitive::Rect {
        x,
        y,
        width,
        height,
        fill,
        stroke: None,
        stroke_width: None,
        opacity: None,
    }
}

/// A cell without a verdict is grey.
fn fill(shade: Shade) -> Color {
    let [red, green, blue] = shade.rgb().unwrap_or([0xf4, 0xf5, 0xf6]);
    Color::Rgb(red, green, blue)
}

/// `$` would start a formula.
fn words(
    x: f64,
    y: f64,
    text: &str,
    size: u32,
    colour: &str,
    anchor: TextAnchor,
    bold: bool,
) -> Primitive {
    Primitive::Text {
        x,
        y,
        content: text.replace('$', "\\$"),
        size,
        anchor,
        rotate: None,
        bold,
        color: Some(colour.into()),
    }
}

/// A layer's name, in lines that end where its own parts end.
fn parts(name: &str) -> Vec<String> {
    let parts = name_parts(name);
    parts.map(|part| part.trim().to_owned()).collect()
}

/// Width of the line about trust, beside the scale of the shades.
const TRUST: f64 = 334.0;
/// Smallest letters of a line that is not cut.
const SMALL: u32 = 9;

/// Width of a letter of `DejaVu Sans` over its size, from the font's table `hmtx`, rounded up to that of its group.
fn letter(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '\'' => 0.28,
        ' ' | '.' | ',' | ':' | ';' | '/' | 'I' => 0.34,
        'f' | 'r' | 't' | '-' | '(' | ')' | '!' => 0.42,
        'c' | 's' | 'z' => 0.55,
        'w' | '+' | '~' | '=' | '#' | '<' | '>' | '^' | '\u{b1}' | '\u{d7}' => 0.84,
        'm' | 'M' | 'W' | '%' | '@' | '\u{2026}' => 1.0,
        'A'..='Z' | '&' => 0.79,
        c if c.is_ascii() => 0.64,
        // Some of other scripts are as wide as they are high.
        _ => 1.0,
    }
}

/// About how wide a text is.
fn width(text: &str, size: u32) -> f64 {
    f64::from(size) * text.chars().map(letter).sum::<f64>()
}

/// The largest size of letters, up to this one, in which a text fits.
fn fitting(text: &str, room: f64, most: u32) -> u32 {
    let sizes = (1..=most).rev();
    let mut fits = sizes.filter(|size| width(text, *size) <= room);
    fits.next().unwrap_or(most)
}

/// The start of a text that fits, with an ellipsis if it does not fit whole.
fn cut(text: &str, room: f64, size: u32) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    // The ellipsis is as wide as the widest.
    let room = room - f64::from(size);
    let mut taken = 0.0;
    let start = text.chars().take_while(|c| {
        taken += letter(*c) * f64::from(size);
        taken <= room
    });
    start.chain(['\u{2026}']).collect()
}

/// Lines of bold letters, which are about an eighth wider.
fn bold_wrapped(text: &str, room: f64, size: u32) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or("", String::as_str);
        let longer = if line.is_empty() {
            word.to_owned()
        } else {
            format!("{line} {word}")
        };
        if line.is_empty() || width(&longer, size) * 1.12 <= room {
            lines.pop();
            lines.push(longer);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Report,
        page::{Part, cell::Unit},
    };
    use layermark_testkit::sample::Sample;

    fn made(sample: &Sample) -> Report {
        let (run, trials) = sample.build();
        Report::build(&run, &trials)
    }

    fn written(report: &Report, name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let exporter = crate::render::for_path(name.as_ref()).expect("a format");
        exporter.write(report, &mut out).expect("a picture");
        out
    }

    /// Texts of the drawing, in their order.
    fn texts(report: &Report) -> Vec<String> {
        let svg = String::from_utf8(written(report, "card.svg")).expect("a text");
        let text = |t: &str| {
            Some(
                t.split_once('>')?
                    .1
                    .split_once("</text>")?
                    .0
                    .replace("&apos;", "'"),
            )
        };
        svg.split("<text").skip(1).filter_map(text).collect()
    }

    #[test]
    fn it_has_headline_matrix_machine_date_and_trust() {
        let report = made(&Sample::default());
        let all = texts(&report);
        let whole = all.join(" ");
        let headline = format!("{}.", unmarked(&report.headline));
        assert!(whole.starts_with(&headline), "{whole}");
        let document = Document::new(&report);
        let matrix = document.matrix().expect("a matrix").ratios();
        let rows: Vec<String> = matrix.cells().map(|c| c.text(Unit::Ratio)).collect();
        assert!(rows.len() > 8);
        for ratio in &rows {
            assert!(all.contains(ratio), "{ratio}: {all:?}");
        }
        let trust = document.note(Part::Trust).expect("checks").to_owned();
        for part in [&report.machine.cpu, &report.started, &report.run, &trust] {
            assert!(whole.contains(part.as_str()), "{part}: {whole}");
        }
    }

    #[test]
    fn a_run_of_native_alone_has_its_times() {
        let report = made(&Sample {
            layers: vec![],
            ..Sample::default()
        });
        let all = texts(&report);
        for row in &report.results {
            let time = number::time(row.op_us.expect("a time"));
            assert!(all.contains(&row.label) && all.contains(&time), "{all:?}");
        }
    }

    /// `240x faster` covered its neighbours.
    #[test]
    fn the_text_of_a_cell_fits_it() {
        assert_eq!(fitting("=", 66.0, 15), 15);
        let size = fitting("240x faster", 66.0, 15);
        assert!(size < 15 && width("240x faster", size) <= 66.0, "{size}");
        // As DejaVu Sans draws it: 4.97 times the size of its letters.
        let size = fitting("0.96 \u{b1}9%", 66.0, 15);
        assert!(size < 15 && f64::from(size) * 4.97 <= 66.0, "{size}");
    }

    /// Each had the size in which it fitted.
    #[test]
    fn all_lines_about_layers_have_one_size() {
        let short = "fuse: 2.0x";
        let long = "overlay:merged: database the same, packaged files up to +10 %, 1 of 15 not decided, fsync works";
        let items = [long, short, short, short, short].map(|text| Item {
            layer: "",
            text: text.into(),
            brief: None,
            evidence: &[],
            hint: None,
        });
        let mut page = Page(Vec::new());
        page.in_short(&items, 0.0);
        let sizes = page.0.iter().filter_map(|shape| match shape {
            Primitive::Text { size, .. } => Some(*size),
            _ => None,
        });
        let sizes: Vec<_> = sizes.collect();
        assert_eq!(sizes.len(), 5);
        assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
        assert!(sizes[0] < 13, "{sizes:?}");
    }

    #[test]
    fn it_has_the_size_of_a_preview() {
        let png = written(&made(&Sample::default()), "card.png");
        let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
        assert_eq!((side(16), side(20)), (1200, 675));
    }
}
