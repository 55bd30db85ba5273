//! A matrix: labels as rows, layers as columns, short cells. Split into as many groups of layers as
//! the window needs.

use super::{
    Style,
    columns::{display_width, left, right},
    paint, stacked,
};
use crate::Verdict;

/// Blank columns before each layer.
const GAP: usize = 2;

/// The content of the matrix.
pub struct TextMatrix {
    /// Names of the layers, each in parts for one line each.
    pub heads: Vec<Vec<String>>,
    /// From top to bottom.
    pub rows: Vec<TextRow>,
}

/// A label and a cell for each layer.
pub struct TextRow {
    /// Its lines.
    pub label: Vec<String>,
    /// The text of each cell, and the verdict that gives its colour.
    pub cells: Vec<(String, Option<Verdict>)>,
}

/// Columns printed side by side.
struct HeadGroup<'a> {
    heads: &'a [Vec<String>],
    /// Index of its first layer.
    first: usize,
    widths: &'a [usize],
}

impl TextMatrix {
    /// Prints it, with a blank line between groups.
    pub fn print(&self, style: Style) -> String {
        let widths = self.widths();
        let label = self.label();
        let groups = self.groups(&widths, label, style.width);
        let groups = groups.iter().map(|group| {
            let heads: Vec<&[String]> = group.heads.iter().map(Vec::as_slice).collect();
            let cells = |texts: Vec<&str>| {
                group.line("", label, texts.into_iter().map(|t| (t, None)), style)
            };
            let mut text: String = stacked(&heads).into_iter().map(cells).collect();
            for row in &self.rows {
                text += &group.row(row, label, style);
            }
            text
        });
        groups.collect::<Vec<_>>().join("\n")
    }

    /// Whether all columns have room side by side.
    pub fn is_one_group(&self, width: usize) -> bool {
        self.groups(&self.widths(), self.label(), width).len() <= 1
    }

    fn label(&self) -> usize {
        let lines = self.rows.iter().flat_map(|row| &row.label);
        lines.map(|line| display_width(line)).max().unwrap_or(0)
    }

    /// The width of each layer's column.
    fn widths(&self) -> Vec<usize> {
        let cells = |at: usize| {
            self.rows
                .iter()
                .map(move |row| display_width(&row.cells[at].0))
        };
        let of = |(at, head): (usize, &Vec<String>)| {
            let parts = head.iter().map(|part| display_width(part));
            parts.chain(cells(at)).max().unwrap_or(0) + GAP
        };
        self.heads.iter().enumerate().map(of).collect()
    }

    fn groups<'a>(
        &'a self,
        widths: &'a [usize],
        label: usize,
        window: usize,
    ) -> Vec<HeadGroup<'a>> {
        let mut groups = Vec::new();
        let mut first = 0;
        while first < widths.len() {
            let mut used = label;
            let fits = |w: &&usize| {
                used += **w;
                used <= window
            };
            let count = widths[first..].iter().take_while(fits).count().max(1);
            let (heads, widths) = (&self.heads[first..], &widths[first..]);
            groups.push(HeadGroup {
                heads: &heads[..count],
                first,
                widths: &widths[..count],
            });
            first += count;
        }
        groups
    }
}

impl HeadGroup<'_> {
    fn row(&self, row: &TextRow, label: usize, style: Style) -> String {
        let (first, rest) = match row.label.split_first() {
            Some((first, rest)) => (first.as_str(), rest),
            None => ("", row.label.as_slice()),
        };
        let cells = row.cells[self.first..].iter();
        let cells = cells.map(|(text, verdict)| (text.as_str(), *verdict));
        let below = rest.iter().map(|line| format!("{line}\n"));
        self.line(first, label, cells, style) + &below.collect::<String>()
    }

    fn line<'a>(
        &self,
        label: &str,
        width: usize,
        cells: impl Iterator<Item = (&'a str, Option<Verdict>)>,
        style: Style,
    ) -> String {
        let mut line = left(label, width);
        for ((text, verdict), width) in cells.zip(self.widths) {
            let padded = right(text, *width);
            line += &verdict.map_or_else(|| padded.clone(), |v| paint(style, v, &padded));
        }
        format!("{}\n", line.trim_end())
    }
}
