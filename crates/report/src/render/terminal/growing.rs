//! The matrix of a running run: the ratios known so far. It gives no verdicts, which need all blocks.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Style,
    matrix::{TextMatrix, TextRow},
    summary::{HEAD, LABEL, NAME, filled},
};
use super::{
    columns::{cut, display_width},
    name_parts, plain_name,
};
use crate::{Estimate, Verdict, number, page::short_names};

/// Ratios by point and layer, in the order of the run. Those without a ratio have no row or column yet.
#[derive(Debug, Default)]
pub struct Growing {
    points: Vec<String>,
    layers: Vec<String>,
    /// Indices of point and layer, and the latest ratio.
    cells: BTreeMap<[usize; 2], Estimate>,
}

impl Growing {
    /// An empty matrix of these points and layers.
    pub fn of(points: &[String], layers: &[String]) -> Self {
        Self {
            points: points.to_vec(),
            layers: layers.to_vec(),
            cells: BTreeMap::new(),
        }
    }

    /// Indices of the points (0) or layers (1) that have a ratio.
    fn known(&self, axis: usize) -> Vec<usize> {
        let all: BTreeSet<usize> = self.cells.keys().map(|at| at[axis]).collect();
        all.into_iter().collect()
    }

    /// Adds a ratio, or replaces an earlier one.
    pub fn set(&mut self, point: &str, layer: &str, ratio: Estimate) {
        let at = [
            index(&mut self.points, point),
            index(&mut self.layers, layer),
        ];
        self.cells.insert(at, ratio);
    }

    /// The matrix in at most this many columns and lines; empty if it does not fit. Points are rows,
    /// or layers are if only that fits.
    pub fn print(&self, width: usize, lines: usize) -> String {
        let fewest = self.known(0).len().min(self.known(1).len());
        if fewest == 0 || fewest >= lines {
            return String::new();
        }
        let style = Style {
            width,
            ..Style::default()
        };
        // `TextMatrix` makes as many groups of columns as the width needs, with the first column at any width.
        let fits = |text: &String| {
            let narrow = text.lines().all(|line| display_width(line) <= width);
            text.lines().count() <= lines && narrow
        };
        let tables = [Self::by_point, Self::by_layer].into_iter();
        let tables = tables.map(|table| table(self));
        let whole = tables.filter(|table| table.is_one_group(width));
        let mut texts = whole.map(|table| table.print(style));
        texts.find(fits).unwrap_or_default()
    }

    fn cell(&self, point: usize, layer: usize) -> (String, Option<Verdict>) {
        let found = self.cells.get(&[point, layer]);
        let text = found.map_or_else(String::new, |ratio| {
            number::noisy(ratio).unwrap_or_else(|| number::times(ratio))
        });
        (text, None)
    }

    fn heads(&self) -> Vec<Vec<String>> {
        let layers = self.known(1).into_iter();
        let names: Vec<&str> = layers.map(|l| self.layers[l].as_str()).collect();
        let (heads, _) = short_names(&names);
        heads.iter().map(|h| name_parts(&plain_name(h))).collect()
    }

    fn by_point(&self) -> TextMatrix {
        let layers = self.known(1);
        let row = |n: usize| TextRow {
            label: vec![cut(&plain_name(&self.points[n]), LABEL).to_owned()],
            cells: layers.iter().map(|l| self.cell(n, *l)).collect(),
        };
        TextMatrix {
            heads: self.heads(),
            rows: self.known(0).into_iter().map(row).collect(),
        }
    }

    fn by_layer(&self) -> TextMatrix {
        let (heads, points) = (self.heads(), self.known(0));
        let row = |(n, head): (usize, &Vec<String>)| TextRow {
            label: filled(head, "", NAME),
            cells: points.iter().map(|p| self.cell(*p, n)).collect(),
        };
        let head = |n: &usize| {
            let label = plain_name(&self.points[*n]);
            let words: Vec<String> = label.split_whitespace().map(str::to_owned).collect();
            filled(&words, " ", HEAD)
        };
        TextMatrix {
            heads: points.iter().map(head).collect(),
            rows: self.known(1).into_iter().zip(&heads).map(row).collect(),
        }
    }
}

/// Index of a name, which is added if it is new.
fn index(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|n| n == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(estimate: f64) -> Estimate {
        Estimate {
            estimate,
            interval: Some([0.9 * estimate, 1.1 * estimate]),
            average: None,
        }
    }

    #[test]
    fn it_grows_by_cells_and_turns_where_only_that_fits() {
        let names =
            |names: &[&str]| -> Vec<String> { names.iter().map(|n| (*n).to_owned()).collect() };
        let points = names(&["open and stat", "small read"]);
        let layers = names(&["vm:disk=ide", "tmpfs", "fuse"]);
        let mut all = Growing::of(&points, &layers);
        assert_eq!(all.print(80, 20), "");
        all.set("small read", "fuse", ratio(3.0));
        all.set("small read", "fuse", ratio(2.0));
        all.set("small read", "vm:disk=ide", ratio(4.0));
        all.set("open and stat", "vm:disk=ide", ratio(5.0));
        let text = all.print(80, 20);
        let lines: Vec<&str> = text.lines().collect();
        // In the order of the run, and without what has no ratio.
        assert!(lines[lines.len() - 1].starts_with("small read"), "{text}");
        assert!(!text.contains("tmpfs"), "{text}");
        assert!(
            text.contains("2.00 \u{b1}10%") && !text.contains("3.00"),
            "{text}"
        );
        assert!(
            lines[lines.len() - 2].starts_with("open and stat"),
            "{text}"
        );
        for n in 0..12 {
            all.set("small read", &format!("layer{n}"), ratio(1.0));
        }
        let turned = all.print(80, 20);
        assert!(turned.lines().any(|l| l.starts_with("layer11")), "{turned}");
        assert!(turned.lines().all(|l| l.chars().count() <= 80), "{turned}");
        // A window that is too low shows none, and never half of it.
        assert_eq!(all.print(80, 5), "");
    }
}
