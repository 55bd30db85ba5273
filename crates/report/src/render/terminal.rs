//! The report on a terminal: short ([`print`]), or complete: a table as wide as the window, then
//! the verdict in words.

use std::io::Write;

use super::{Files, Renderer};
use crate::{
    Safety, Section, TrustItem, TrustState, Verdict,
    code_span::unmarked,
    page::{
        self, Block, Content, Document, Item, Part,
        cell::Unit,
        results::{Numbers, ResultLine, Results},
    },
    words::result_line,
};

mod columns;
mod growing;
mod layers;
mod matrix;
mod sections;
mod summary;

use columns::{display_width, left, right};
pub use growing::Growing;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Width in columns. Longer text is wrapped at spaces, never cut.
    pub width: usize,
    /// Colour the verdicts. The caller respects `NO_COLOR`.
    pub colour: bool,
    /// What the cells of the matrix show.
    pub unit: Unit,
}

impl Style {
    /// Limits the width: below 40 columns nothing is readable, and lines above 200 are too long to
    /// follow.
    fn clamped(self) -> Self {
        Self {
            width: self.width.clamp(40, 200),
            ..self
        }
    }
}

impl Default for Style {
    fn default() -> Self {
        Self {
            width: 100,
            colour: false,
            unit: Unit::Ratio,
        }
    }
}

/// See the module.
pub struct Text;

impl Renderer for Text {
    fn id(&self) -> &'static str {
        "terminal"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["txt"]
    }

    fn draw(&self, document: &Document, out: &mut dyn Files) -> anyhow::Result<()> {
        let out = out.open("")?;
        writeln!(out, "{}:\n", document.generated_by)?;
        print_full(document, Style::default(), out)
    }
}

/// Prints the answer in about 40 lines, 60 if they are short, and one more for each layer beyond three.
pub fn print(document: &Document, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    let style = style.clamped();
    let Some(results) = document.results().filter(|results| !results.is_empty()) else {
        return complete(document, style, out);
    };
    match document.sections(&[Part::Study]).next() {
        Some(study) => summary::study(document, study, style, out),
        None => summary::print(document, results, style, out),
    }
}

/// Prints the complete report.
pub fn print_full(document: &Document, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    complete(document, style.clamped(), out)
}

/// Prints a section.
pub fn print_section(section: &Section, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    sections::print(section, style.clamped(), out)
}

/// Prints the answers about a directory: a line each, and below it what to do.
pub fn print_safety(of: &Safety, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    let style = style.clamped();
    let head = format!("{} ({})", of.dir, of.file_system);
    writeln!(out, "{}", plain_name(&head))?;
    let titles = of.answers.iter().map(|a| a.question.title().len());
    let width = titles.max().unwrap_or(0);
    for answer in &of.answers {
        let (title, word) = (answer.question.title(), answer.answer.word());
        let first = format!("  {title:<width$}  {word:<10}  ");
        let rest = " ".repeat(first.len());
        let because = format!("because {}", answer.because);
        wrapped(out, style, &first, &rest, &plain(&because))?;
        if let Some(advice) = &answer.advice {
            let (first, rest) = (format!("{rest}do: "), format!("{rest}    "));
            wrapped(out, style, &first, &rest, &plain(advice))?;
        }
    }
    Ok(())
}

/// The parts of the complete report. The answer is near its end, where the prompt is.
const ORDER: &[&[Part]] = &[
    &[Part::Study],
    &[Part::Results],
    &[Part::Headline],
    &[Part::InShort],
    &[Part::Layers],
    &[Part::Findings],
    &[Part::Answer],
    &[Part::Trust],
    &[Part::Advice],
    &[Part::LeftOut],
    &[Part::Figures, Part::Model],
    &[Part::Fidelity],
    &[Part::About],
];

fn complete(document: &Document, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    let is_empty = |b: &&Block| matches!(&b.content, Content::Results(of) if of.is_empty());
    let blocks = document.in_order(ORDER).filter(|b| !is_empty(b));
    for (n, of) in blocks.enumerate() {
        // The layers' paragraphs explain the headline above them.
        if n > 0 && !matches!(of.part, Part::InShort | Part::Layers) {
            writeln!(out)?;
        }
        block(of, style, out)?;
    }
    Ok(())
}

fn block(block: &Block, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    match &block.content {
        Content::Caveats(caveats) => {
            wrapped(out, style, "", "", &plain(&format!("{}.", block.title)))?;
            for caveat in *caveats {
                wrapped(out, style, "!! ", "   ", &plain(&format!("{caveat}.")))?;
            }
            Ok(())
        }
        Content::Line(text) => wrapped(out, style, "", "  ", text),
        Content::List(items) => {
            if !matches!(block.part, Part::InShort | Part::Layers) {
                writeln!(out, "{}", block.title)?;
            }
            items.iter().try_for_each(|of| item(of, style, out))
        }
        Content::Checks(items) => {
            writeln!(out, "{}", block.title)?;
            items.iter().try_for_each(|of| check(of, style, out))
        }
        Content::Results(of) => results(of, style, out),
        Content::Section(section) => sections::print(section, style, out),
        Content::Matrix(_)
        | Content::Reproduce(_)
        | Content::Method(_)
        | Content::Stack(_)
        | Content::SelfTests(_)
        | Content::Trials(_) => Ok(()),
    }
}

fn item(item: &Item, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    let hint = item.hint.map(|h| format!("; hint: {h}"));
    let text = format!("{}{}", item.text, hint.unwrap_or_default());
    wrapped(out, style, "  ", "    ", &plain(&text))
}

fn check(item: &TrustItem, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    let mark = match item.state {
        TrustState::Ok => "  ok ",
        TrustState::Warn => "  !! ",
        TrustState::None => "  -- ",
    };
    let text = format!("{}: {}", item.title, item.text);
    wrapped(out, style, mark, "     ", &plain(&text))
}

/// Text on one line, without the marks that other formats show as code.
fn plain(text: &str) -> String {
    plain_name(&unmarked(text))
}

/// A paragraph as [`wrapped`] prints it.
fn text(style: Style, first: &str, rest: &str, text: &str) -> anyhow::Result<String> {
    let mut out = Vec::new();
    wrapped(&mut out, style, first, rest, &plain(text))?;
    Ok(String::from_utf8(out)?)
}

fn lines(text: &str) -> usize {
    text.lines().count()
}

/// A name, which has no marks, on one line.
fn plain_name(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .map(|c| {
            if matches!(c, '\u{201c}' | '\u{201d}') {
                '"'
            } else {
                c
            }
        })
        .collect()
}

/// A column's head in parts: names of layers are split where their own parts end.
fn name_parts(name: &str) -> Vec<String> {
    let parts = page::name_parts(name);
    parts.map(|part| part.trim().to_owned()).collect()
}

/// Lines above columns: the last part of each head is on the lowest line.
fn stacked<'a>(heads: &[&'a [String]]) -> Vec<Vec<&'a str>> {
    let lines = heads.iter().map(|h| h.len()).max().unwrap_or(0);
    let part = |head: &&'a [String], line: usize| {
        let at = (line + head.len()).checked_sub(lines);
        at.map_or("", |n| head[n].as_str())
    };
    (0..lines)
        .map(|line| heads.iter().map(|h| part(h, line)).collect())
        .collect()
}

fn wrapped(
    out: &mut dyn Write,
    style: Style,
    first: &str,
    rest: &str,
    text: &str,
) -> anyhow::Result<()> {
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        let fits = display_width(&line) + 1 + display_width(word) <= style.width;
        if !empty && !fits {
            writeln!(out, "{line}")?;
            rest.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(out, "{line}")?;
    Ok(())
}

/// Columns after the layer's name. In a narrow window some are left out, and the result of an fsync
/// is below the row.
const HEADS: [&str; 7] = [
    "time/op",
    result_line::BASELINE,
    "ratio [95 %]",
    "difference",
    "verdict",
    "throughput",
    result_line::SOURCE,
];

/// The cells of each line of a result.
fn cells(of: &ResultLine) -> Vec<[String; 7]> {
    let line = |n: &Numbers| {
        let of_row = if n.is_average {
            [const { String::new() }; 3]
        } else {
            [of.word.into(), of.throughput.clone(), of.source.clone()]
        };
        let [verdict, value, label] = of_row;
        let numbers = [n.time(), n.baseline(), n.ratio(), n.extra()];
        let [time, baseline, ratio, extra] = numbers;
        [time, baseline, ratio, extra, verdict, value, label]
    };
    of.numbers.iter().map(line).collect()
}

/// Columns of numbers, which are aligned to the right.
const RIGHT: [bool; 7] = [true, true, true, true, false, true, false];
/// The column of the baseline's time.
const BASELINE: usize = 1;
/// The column of the verdict.
const VERDICT: usize = 4;
/// The column for the source of the data and the result of an fsync.
const LABEL: usize = 6;
/// Order in which columns are left out in a narrow window.
const DROP: [usize; 3] = [5, LABEL, 0];

/// Widths of the columns, and which of them are shown.
struct Grid {
    first: usize,
    widths: [usize; 7],
    shown: [bool; 7],
    /// Whether the layer's name has its own line.
    stacked: bool,
}

fn name(of: &ResultLine) -> String {
    format!("  {}", plain_name(&of.name))
}

impl Grid {
    fn new(results: &Results, width: usize) -> Self {
        let lines: Vec<&ResultLine> = results.lines().collect();
        let first = lines
            .iter()
            .map(|line| display_width(&name(line)))
            .max()
            .unwrap_or(0);
        let two_lines = lines.iter().any(|line| line.numbers.len() > 1);
        let first = if two_lines {
            first.max(4 + result_line::ON_AVERAGE.len())
        } else {
            first
        };
        let widest = |c: usize| {
            lines
                .iter()
                .flat_map(|of| cells(of).into_iter().map(|line| display_width(&line[c])))
                .chain([HEADS[c].len()])
                .max()
                .unwrap_or(0)
        };
        let mut grid = Self {
            first,
            widths: [0, 1, 2, 3, 4, 5, 6].map(widest),
            shown: [true; 7],
            stacked: false,
        };
        let is_compared = |of: &&ResultLine| of.numbers.iter().any(|n| n.baseline_us.is_some());
        let compared = lines.iter().any(is_compared);
        grid.shown[BASELINE] = compared;
        for column in DROP {
            grid.shown[column] &= grid.total() <= width;
        }
        // A time without the baseline's in the same rounds contradicts the ratio.
        grid.shown[BASELINE] &= grid.shown[0];
        if grid.total() > width {
            grid.stacked = true;
            grid.first = 2;
        }
        grid
    }

    fn total(&self) -> usize {
        self.first
            + (0..7)
                .filter(|c| self.shown[*c])
                .map(|c| self.widths[c] + 2)
                .sum::<usize>()
    }

    fn line(&self, head: &str, cells: &[String; 7], paint: impl Fn(&str) -> String) -> String {
        let first = self.first;
        let mut line = if self.stacked && !head.is_empty() {
            format!("{head}\n{:first$}", "")
        } else {
            left(head, first)
        };
        for c in (0..7).filter(|c| self.shown[*c]) {
            let (text, width) = (&cells[c], self.widths[c]);
            let padded = if RIGHT[c] {
                right(text, width)
            } else {
                left(text, width)
            };
            line.push_str("  ");
            line.push_str(&if c == VERDICT { paint(&padded) } else { padded });
        }
        line.trim_end().to_owned()
    }
}

fn results(results: &Results, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
    let grid = Grid::new(results, style.width);
    let heads = grid.line("", &HEADS.map(str::to_owned), str::to_owned);
    writeln!(out, "{heads}")?;
    for group in &results.groups {
        let title = if group.what == group.label {
            group.what.clone()
        } else {
            format!("{} ({})", group.label, group.what)
        };
        wrapped(out, style, "", "  ", &plain_name(&title))?;
        for of in &group.lines {
            let painted = |text: &str| paint(style, of.verdict, text);
            for (numbers, cells) in of.numbers.iter().zip(cells(of)) {
                let head = match numbers.of() {
                    "" => name(of),
                    of => format!("    {of}"),
                };
                writeln!(out, "{}", grid.line(&head, &cells, painted))?;
            }
            let brief = plain(&of.notes.brief);
            let label = if grid.shown[LABEL] { "" } else { &of.source };
            let mut below = vec![label, brief.as_str()];
            below.retain(|text| !text.is_empty());
            if !below.is_empty() {
                wrapped(out, style, "      ", "      ", &below.join("; "))?;
            }
        }
    }
    Ok(())
}

fn paint(style: Style, verdict: Verdict, text: &str) -> String {
    let code = match verdict {
        _ if !style.colour => return text.into(),
        Verdict::Same => "32",
        Verdict::Slower => "33",
        Verdict::Faster => "36",
        Verdict::Untrusted => "31",
        Verdict::Undecided | Verdict::Baseline | Verdict::Descriptive => "2",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}
