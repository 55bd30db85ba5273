//! The matrix of a run that goes on: the ratios so far, and the words that are given at looks.

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
use crate::{Estimate, SoFar, Verdict, number, page::short_names, words};

/// Ratios by point and layer, in the order of the run. Those without a ratio have no row or column yet.
#[derive(Debug, Default)]
pub struct Growing {
    points: Vec<String>,
    layers: Vec<String>,
    /// Indices of point and layer, and the latest ratio.
    cells: BTreeMap<[usize; 2], Estimate>,
    /// Cells that have a word, as they were at the last look.
    decided: BTreeMap<[usize; 2], String>,
    /// Blocks at the last look.
    blocks: Option<usize>,
}

impl Growing {
    /// An empty matrix of these points and layers.
    pub fn of(points: &[String], layers: &[String]) -> Self {
        Self {
            points: points.to_vec(),
            layers: layers.to_vec(),
            ..Self::default()
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

    /// Shows the words of the last look in place of those of an earlier one.
    pub fn look(&mut self, so_far: &SoFar) {
        self.blocks = so_far.blocks();
        self.decided.clear();
        for cell in so_far.cells() {
            let at = [
                index(&mut self.points, &cell.point),
                index(&mut self.layers, &cell.layer),
            ];
            self.decided.insert(at, cell.shown.clone());
        }
    }

    /// The matrix in at most this many columns and lines; empty if it does not fit. Points are rows,
    /// or layers are if only that fits.
    pub fn print(&self, width: usize, lines: usize) -> String {
        let fewest = self.known(0).len().min(self.known(1).len());
        if fewest == 0 || fewest + 1 >= lines {
            return String::new();
        }
        let style = Style {
            width,
            ..Style::default()
        };
        let heading = String::from(words::so_far::heading(self.blocks));
        let lines = lines - 1;
        // `TextMatrix` makes as many groups of columns as the width needs, with the first column at any width.
        let fits = |text: &String| {
            let narrow = text.lines().all(|line| display_width(line) <= width);
            text.lines().count() <= lines && narrow
        };
        let tables = [Self::by_point, Self::by_layer].into_iter();
        let tables = tables.map(|table| table(self));
        let whole = tables.filter(|table| table.is_one_group(width));
        let mut texts = whole.map(|table| table.print(style));
        let text = texts.find(fits);
        text.map_or_else(String::new, |text| {
            // All of it, or the part that has to be said.
            let all = Some(heading.as_str()).filter(|all| display_width(all) <= width);
            format!("{}\n{text}", all.unwrap_or("so far"))
        })
    }

    fn cell(&self, point: usize, layer: usize) -> (String, Option<Verdict>) {
        if let Some(shown) = self.decided.get(&[point, layer]) {
            return (shown.clone(), None);
        }
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

    #[test]
    fn it_says_so_far_and_the_words_of_the_last_look() {
        let (run, trials) = layermark_testkit::sample::Sample::default().build();
        let labels = run.points.iter().map(|p| p.label.clone());
        let labels: Vec<String> = labels.collect();
        let mut all = Growing::of(&labels, &[]);
        let mut so_far = SoFar::default();
        so_far.look(&run, &trials, 8);
        for cell in so_far.cells() {
            all.set(&cell.point, &cell.layer, ratio(7.77));
        }
        let text = all.print(100, 30);
        assert!(text.starts_with("so far; \u{b1}: not decided\n"), "{text}");
        assert!(text.contains("7.8 \u{b1}10%"), "{text}");
        all.look(&so_far);
        let text = all.print(100, 30);
        assert!(
            text.starts_with("so far, after 8 blocks: = same; "),
            "{text}"
        );
        // Each cell that has a ratio has a word.
        assert!(!text.contains("7.8 \u{b1}"), "{text}");
        assert!(
            so_far.cells().iter().all(|c| text.contains(&c.shown)),
            "{text}"
        );
        assert!(all.print(20, 60).is_empty() || all.print(20, 60).starts_with("so far\n"));
        // The heading has a line of its own.
        let lines = text.lines().count();
        assert_eq!(
            (all.print(100, lines).is_empty(), all.print(100, lines - 1)),
            (false, String::new())
        );
        // Words that are taken back are shown no more.
        all.look(&SoFar::default());
        assert!(all.print(100, 30).contains("7.8 \u{b1}"));
    }
}
