//! The answer in about 40 lines: a line for each layer, matrix, headline, findings, trust; or the conclusions of a
//! study. The rest is in [`super::print_full`].

use std::io::Write;

use super::{
    Style,
    columns::{cut, display_width},
    layers::layers,
    lines,
    matrix::{TextMatrix, TextRow},
    name_parts, plain, plain_name, sections, text,
};
use crate::{
    Claims, Conclusion, Holds, Section, Verdict,
    number::count,
    page::{
        Block, Document, Item, Part,
        cell::MatrixCell,
        matrix::{Matrix, MatrixColumn, MatrixRow},
        results::Results,
    },
};

/// Most lines, including the one with the page's path, which goes to standard error; and one more for each layer beyond
/// [`FEW`].
const LINES: usize = 40;
/// The same in a window narrower than [`NARROW`].
const LINES_IF_NARROW: usize = 60;
const NARROW: usize = 100;
/// Longest label of a point; longer ones are cut.
pub(super) const LABEL: usize = 32;
/// Most findings, or sentences of a study.
const SENTENCES: usize = 5;
/// Fewest findings, or sentences of a study, whatever the space.
const FINDINGS: usize = 2;
/// Most layers with a line of their own.
const IN_SHORT: usize = 16;
/// Lines about single layers in a study, whose claims are its answer, and most conclusions below them.
const STUDIED: usize = 6;
const FEW: usize = 3;
/// Most reasons why something was left out.
const REASONS: usize = 4;
/// Fewest points, whatever the space.
const POINTS: usize = 6;
/// Widths of a layer's name and of a point's label, where layers are rows.
pub(super) const NAME: usize = 22;
pub(super) const HEAD: usize = 8;

/// Up to this many results are printed as the table, which also has times and intervals.
const TABLE: usize = 12;

/// Prints the summary. Of sections that are the run's answer some tables, and the matrix follows if it has room.
pub fn print(
    document: &Document,
    results: &Results,
    style: Style,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let head = drawn(document.part(Part::Headline), style)?;
    let findings = findings(document, style)?;
    let foot = foot(document, style)?;
    let advice = match document.items(Part::Advice).first() {
        Some(advice) => text(style, "Advice: ", "  ", &advice.text)?,
        None => String::new(),
    };
    let sections: Vec<&Section> = document.sections(&[Part::Answer]).collect();
    // Sections have the times; how alternatives compare comes before the table of results.
    let choices = choices(document, style)?;
    let kept = if sections.is_empty() {
        0
    } else {
        lines(&choices)
    };
    // Blank lines follow the matrix and the findings; a line counts the findings without room.
    let counted = usize::from(findings.len() > FINDINGS);
    let fixed = lines(&head) + lines(&advice) + lines(&foot) + 3 + counted + kept;
    let least: usize = findings.iter().take(FINDINGS).map(|f| lines(f)).sum();
    let most = most(document, style);
    // The smallest matrix, and a blank line.
    let fewest = lines(&matrix(document, style, 0)?) + 1;
    let free = most.saturating_sub(fixed + least + fewest);
    let lines_of_layers = in_short(document, style, IN_SHORT, free)?;
    let fixed = fixed + lines(&lines_of_layers);
    let room = most.saturating_sub(fixed + least);
    let table = table(document, results, style)?;
    let answer = |room: usize| match table.as_ref().filter(|table| lines(table) <= room) {
        Some(table) => Ok(table.clone()),
        None => matrix(document, style, room),
    };
    let matrix = if sections.is_empty() {
        let fewest = lines(&answer(0)?);
        let layers = explained(document, style, room.saturating_sub(fewest))?;
        answer(room.saturating_sub(lines(&layers)))? + &layers
    } else {
        let mut answers = String::new();
        let least = |of: &&Section| anyhow::Ok(lines(&sections::short(of, style, 0)?) + 1);
        for (at, section) in sections.iter().enumerate() {
            let later = sections[at + 1..].iter().map(least);
            let later: usize = later.sum::<anyhow::Result<usize>>()?;
            // The line about the results below them, and blank ones around it.
            let left = room.saturating_sub(lines(&answers) + 3 + later);
            answers += &sections::short(section, style, left)?;
            answers.push('\n');
        }
        let left = room.saturating_sub(lines(&answers));
        let others = answer(left)?;
        let with_ratio = results
            .lines()
            .filter(|line| line.numbers[0].ratio.is_some());
        let with = with_ratio.count();
        let line = format!("{} with ratios: --full", count(with, "result"));
        let line = text(style, "", "  ", &line)?;
        let fits = lines(&others) <= left;
        answers + if fits { &others } else { &line }
    };
    // The matrix has left room for these findings; sections may not have.
    let mut room = most.saturating_sub(fixed + lines(&matrix)).max(least);
    let mut body = head;
    body += &most_of(&findings, "more finding", SENTENCES, &mut room, style)?;
    if kept > 0 || lines(&choices) <= room {
        body += &choices;
    }
    body += &advice;
    Ok(write!(out, "{lines_of_layers}{matrix}\n{body}\n{foot}")?)
}

/// A line for each layer and a blank one; of more than `shown` layers only the first. Without times where these do not fit
/// into the room.
fn in_short(
    document: &Document,
    style: Style,
    shown: usize,
    room: usize,
) -> anyhow::Result<String> {
    let items = document.items(Part::InShort);
    let (first, rest) = items.split_at(items.len().min(shown));
    let all = |said: for<'i> fn(&'i Item) -> &'i str| -> anyhow::Result<String> {
        let each = first.iter().map(|item| text(style, "", "  ", said(item)));
        let mut out = each.collect::<anyhow::Result<Vec<_>>>()?.concat();
        if !rest.is_empty() {
            let more = format!("and {}: --full", count(rest.len(), "more layer"));
            out += &text(style, "", "  ", &more)?;
        }
        Ok(if out.is_empty() { out } else { out + "\n" })
    };
    let whole = all(|item| &item.text)?;
    // Many layers are easier to compare where each has one line.
    let wraps = lines(&whole) > items.len() + 1;
    if lines(&whole) <= room && !(wraps && items.len() > FEW) {
        return Ok(whole);
    }
    all(|item| item.brief())
}

fn findings(document: &Document, style: Style) -> anyhow::Result<Vec<String>> {
    let all = document.items(Part::Findings).iter();
    all.map(|f| text(style, "  ", "    ", &f.text)).collect()
}

/// How the alternatives compare with each other, after a blank line.
fn choices(document: &Document, style: Style) -> anyhow::Result<String> {
    let mut out = Vec::new();
    if let Some(section) = document.alternatives() {
        writeln!(out)?;
        sections::print(section, style, &mut out)?;
    }
    Ok(String::from_utf8(out)?)
}

/// Prints the matrix of conclusions, the headline and a few sentences. The first table follows if it has
/// room in the same number of lines; without a table, the matrix of results.
pub fn study(
    document: &Document,
    study: &Section,
    style: Style,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let headline = drawn(document.part(Part::Headline), style)?;
    let foot = foot(document, style)?;
    let most = most(document, style);
    let in_short = in_short(document, style, STUDIED, STUDIED + 1)?;
    let mut body = match study.claims() {
        Some(claims) => {
            let holds = holds(&claims, style)?;
            let others = lines(&in_short) + lines(&holds) + lines(&headline) + lines(&foot) + 3;
            let layers = explained(document, style, most.saturating_sub(others))?;
            holds + &layers + "\n"
        }
        None => String::new(),
    };
    let conclusions = gravest(&study.conclusions).into_iter();
    let conclusions: Vec<String> = conclusions
        .map(|c| text(style, "  ", "    ", &sections::sentence(c)))
        .collect::<anyhow::Result<_>>()?;
    // The claims and the first conclusions are the answer.
    let least: usize = conclusions.iter().take(FINDINGS).map(|c| lines(c)).sum();
    let others = lines(&body) + lines(&headline) + lines(&foot) + 4 + least;
    let in_short = match others + lines(&in_short) {
        all if all > most => String::new(),
        _ => in_short,
    };
    body += &headline;
    body += &in_short;
    // Room for the lines that count the others, and a blank one before the foot.
    let mut room = most.saturating_sub(lines(&body) + lines(&foot) + 3);
    let sentences = if in_short.is_empty() { SENTENCES } else { FEW };
    body += &most_of(&conclusions, "more conclusion", sentences, &mut room, style)?;
    let tables = study.tables.iter().map(|table| {
        let mut text = Vec::new();
        sections::titled(table, style, &mut text)?;
        anyhow::Ok(String::from_utf8(text)?)
    });
    let tables: Vec<String> = tables.collect::<anyhow::Result<_>>()?;
    let table = tables.iter().find(|table| lines(table) <= room);
    body.extend(table.map(String::as_str));
    let others = tables.len() - usize::from(table.is_some());
    if others > 0 {
        let word = if table.is_some() {
            "more table"
        } else {
            "table"
        };
        body += &text(
            style,
            "",
            "  ",
            &format!("and {}: --full", count(others, word)),
        )?;
    }
    // Claims of a plan come without tables: what decides them is in the matrix.
    if tables.is_empty() {
        let matrix = matrix(document, style, room)?;
        if lines(&matrix) <= room {
            body.push('\n');
            body += &matrix;
        } else {
            body += "the times: --full\n";
        }
    }
    write!(out, "{body}")?;
    for beside in document.beside() {
        writeln!(out)?;
        sections::print(beside, style, out)?;
    }
    Ok(write!(out, "\n{foot}")?)
}

/// The sentences that have room, at least [`FINDINGS`] and at most `most`, and how many more there are.
fn most_of(
    sentences: &[String],
    more: &str,
    most: usize,
    room: &mut usize,
    style: Style,
) -> anyhow::Result<String> {
    let mut body = String::new();
    let mut shown = 0;
    for sentence in sentences.iter().take(most) {
        if shown >= FINDINGS && lines(sentence) > *room {
            break;
        }
        *room = room.saturating_sub(lines(sentence));
        body += sentence;
        shown += 1;
    }
    if sentences.len() > shown {
        let more = count(sentences.len() - shown, more);
        body += &text(style, "  ", "    ", &format!("and {more}: --full"))?;
    }
    Ok(body)
}

/// A study's claims as rows, layers as columns.
fn holds(claims: &Claims, style: Style) -> anyhow::Result<String> {
    let cell = |c: Option<&Conclusion>| match c.map(|c| c.holds) {
        Some(Holds::Yes) => ("yes".to_owned(), Some(Verdict::Same)),
        Some(Holds::No) => ("no".to_owned(), Some(Verdict::Slower)),
        Some(Holds::Open) => ("?".to_owned(), Some(Verdict::Undecided)),
        None => ("-".to_owned(), None),
    };
    // Claims are wrapped at spaces, and leave room for a few layers.
    let room = Style {
        width: style.width * 3 / 5,
        ..style
    };
    let row = |(claim, all): &(&str, Vec<Option<&Conclusion>>)| {
        let label = text(room, "", "  ", claim)?;
        anyhow::Ok(TextRow {
            label: label.lines().map(str::to_owned).collect(),
            cells: all.iter().copied().map(cell).collect(),
        })
    };
    let parts = |name: &&str| {
        let name = plain_name(name);
        let parts = name.split_inclusive([':', ',', '=']);
        parts.map(str::to_owned).collect()
    };
    let matrix = TextMatrix {
        heads: claims.layers.iter().map(parts).collect(),
        rows: claims
            .claims
            .iter()
            .map(row)
            .collect::<anyhow::Result<_>>()?,
    };
    let signs = [
        (Some(Holds::Open), "?: cannot be decided"),
        (None, "-: not asked"),
    ];
    let stands = |of: Option<Holds>| {
        let mut all = claims.claims.iter().flat_map(|(_, all)| all);
        all.any(|c| c.map(|c| c.holds) == of)
    };
    let used = signs.iter().filter(|(holds, _)| stands(*holds));
    let legend: Vec<&str> = used.map(|(_, words)| *words).collect();
    Ok(matrix.print(style) + &text(style, "", "  ", &legend.join("; "))?)
}

/// Conclusions by importance: decided ones first, and one of each claim before a second. "No" comes
/// before "yes", because claims are in words of good. Among equal answers of a claim, the one that
/// fewer layers have comes first.
fn gravest(all: &[Conclusion]) -> Vec<&Conclusion> {
    let alike = |c: &Conclusion| {
        let others = all.iter().filter(|o| o.claim == c.claim);
        others.filter(|o| o.holds == c.holds).count()
    };
    let open = |c: &Conclusion| c.holds == Holds::Open;
    let mut by_claim: Vec<&Conclusion> = all.iter().collect();
    by_claim.sort_by_key(|c| (open(c), c.holds == Holds::Yes, alike(c)));
    let mut told: Vec<&str> = Vec::new();
    let mut ranked: Vec<_> = by_claim
        .into_iter()
        .map(|c| {
            let before = told.iter().filter(|claim| **claim == c.claim).count();
            told.push(&c.claim);
            (open(c), before, c)
        })
        .collect();
    let place = |c: &Conclusion| all.iter().position(|o| o.claim == c.claim);
    ranked.sort_by_key(|(open, before, c)| (*open, *before, c.holds == Holds::Yes, place(c)));
    ranked.into_iter().map(|(.., c)| c).collect()
}

/// The table of all results, if they are few.
fn table(document: &Document, results: &Results, style: Style) -> anyhow::Result<Option<String>> {
    let is_short = results.lines().count() <= TABLE;
    let table = document.part(Part::Results).filter(|_| is_short);
    table.map(|table| drawn(Some(table), style)).transpose()
}

/// Most lines of the answer.
fn most(document: &Document, style: Style) -> usize {
    let layers = document.items(Part::InShort).len().min(IN_SHORT);
    let more = layers.saturating_sub(FEW);
    if style.width < NARROW {
        LINES_IF_NARROW + more
    } else {
        LINES + more
    }
}

/// A block as text.
fn drawn(block: Option<&Block>, style: Style) -> anyhow::Result<String> {
    let mut out = Vec::new();
    if let Some(block) = block {
        super::block(block, style, &mut out)?;
    }
    Ok(String::from_utf8(out)?)
}

/// A line about trust, the run, and the commands for more.
fn foot(document: &Document, style: Style) -> anyhow::Result<String> {
    let more = format!("More: {}", document.more("--full"));
    let mut foot = String::new();
    if let Some(note) = document.note(Part::Trust) {
        foot += &text(style, "", "  ", &format!("Trust: {note}."))?;
    }
    foot += &left_out(document, style)?;
    foot += &text(style, "", "  ", document.line(Part::About))?;
    // Not wrapped: a shell would read a pasted second line as another command.
    Ok(foot + &plain(&more) + "\n")
}

/// What was left out, a line for each reason.
fn left_out(document: &Document, style: Style) -> anyhow::Result<String> {
    let reasons = &document.left_out;
    let mut lines = String::new();
    for (n, reason) in reasons.iter().take(REASONS).enumerate() {
        let first = if n == 0 { "Left out: " } else { "  " };
        lines += &text(style, first, "    ", reason)?;
    }
    if reasons.len() > REASONS {
        let more = count(reasons.len() - REASONS, "more reason");
        lines += &text(style, "  ", "    ", &format!("and {more}: --full"))?;
    }
    Ok(lines)
}

/// Operations as rows, layers as columns, in as many groups of layers as the window needs; or the
/// other way round, if more operations have room so.
fn matrix(document: &Document, style: Style, room: usize) -> anyhow::Result<String> {
    let all = document.matrix().map(|all| all.in_unit(style.unit));
    let Some(all) = all.filter(|all| !all.columns.is_empty()) else {
        return Ok(String::new());
    };
    let points = all.rows.len();
    let least = points.min(POINTS);
    for shown in (least..=points.min(room).max(least)).rev() {
        let part = all.clone().largest(shown);
        let mut below = text(style, "", "  ", &part.legend())?;
        if shown < points {
            let more = format!("and {}: --full", count(points - shown, "more operation"));
            below = text(style, "", "  ", &more)? + &below;
        }
        let both = [cells(&part), turned(&part)].map(|table| table.print(style) + &below);
        if let Some(whole) = both.iter().find(|whole| lines(whole) <= room) {
            return Ok(whole.clone());
        }
        if shown == least {
            let shorter = both.into_iter().min_by_key(|whole| lines(whole));
            return Ok(shorter.unwrap_or_default());
        }
    }
    Ok(String::new())
}

/// What the layers are, those with the gravest findings first if not all have room.
fn explained(document: &Document, style: Style, room: usize) -> anyhow::Result<String> {
    let Some(matrix) = document.matrix() else {
        return Ok(String::new());
    };
    let findings = document.items(Part::Findings).iter();
    let gravest: Vec<&str> = findings.map(|finding| finding.layer).collect();
    layers(&matrix.ratios(), &gravest, style, room)
}

/// A cell with its colour.
fn cell(all: &Matrix, cell: &MatrixCell) -> (String, Option<Verdict>) {
    // Without the colour of a merit.
    let verdict = cell.verdict.filter(|_| !cell.is_hatched());
    (all.text(cell), verdict)
}

fn cells(all: &Matrix) -> TextMatrix {
    let row = |row: &MatrixRow| TextRow {
        label: vec![cut(&plain_name(row.label), LABEL).to_owned()],
        cells: row.cells.iter().map(|of| cell(all, of)).collect(),
    };
    let head = |column: &MatrixColumn| name_parts(&plain_name(&column.head));
    TextMatrix {
        heads: all.columns.iter().map(head).collect(),
        rows: all.rows.iter().map(row).collect(),
    }
}

/// Layers as rows, operations as columns.
fn turned(all: &Matrix) -> TextMatrix {
    let row = |(n, column): (usize, &MatrixColumn)| TextRow {
        label: filled(&name_parts(&plain_name(&column.head)), "", NAME),
        cells: all
            .rows
            .iter()
            .map(|row| cell(all, &row.cells[n]))
            .collect(),
    };
    let head = |row: &MatrixRow| {
        let label = plain_name(row.label);
        let words: Vec<String> = label.split_whitespace().map(str::to_owned).collect();
        let widths = row.cells.iter().map(|of| display_width(&all.text(of)));
        filled(&words, " ", widths.max().unwrap_or(0).max(HEAD))
    };
    TextMatrix {
        heads: all.rows.iter().map(head).collect(),
        rows: all.columns.iter().enumerate().map(row).collect(),
    }
}

/// Parts in as few lines as fit them into a width. A longer part has a line of its own.
pub(super) fn filled(parts: &[String], joint: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if display_width(line) + joint.len() + display_width(part) <= width => {
                *line += joint;
                *line += part;
            }
            _ => lines.push(part.clone()),
        }
    }
    lines
}
