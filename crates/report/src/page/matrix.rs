//! The answer in one table: operations as rows, layers as columns. Every format draws this one.

use std::collections::{HashMap, HashSet};

use super::{
    cell::{MatrixCell, Unit},
    names::short_names,
    sign::{Sign, SignSet},
};
use crate::{Report, group, statements::everyday::Everyday, words::matrix as words};

/// Results by point and layer.
#[derive(Debug, Clone)]
pub struct Matrix<'a> {
    /// The layers, in the plan's order.
    pub columns: Vec<MatrixColumn<'a>>,
    /// The operations, in the plan's order.
    pub rows: Vec<MatrixRow<'a>>,
    /// What the heads leave out, such as `all vm: cache=none`.
    common: Vec<String>,
    /// The meaning of a ratio.
    ratio: String,
    /// What the cells show.
    unit: Unit,
}

/// A layer.
#[derive(Debug, Clone)]
pub struct MatrixColumn<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its name for heads: without what all layers of a kind have in common.
    pub head: String,
    /// What it is, in one line; may be empty.
    pub about: &'a str,
    /// The same in a few words; may be empty.
    pub brief: &'a str,
    /// Whether the others are compared with it.
    pub is_baseline: bool,
}

/// An operation, with a cell for each column.
#[derive(Debug, Clone)]
pub struct MatrixRow<'a> {
    /// Its label.
    pub label: &'a str,
    /// Whether it is the work of an application as a whole. These come first.
    pub is_application: bool,
    /// Its results.
    pub cells: Vec<MatrixCell<'a>>,
}

impl MatrixRow<'_> {
    /// The largest decided difference among its cells.
    fn size(&self) -> f64 {
        self.cells.iter().map(MatrixCell::size).fold(0.0, f64::max)
    }
}

impl<'a> Matrix<'a> {
    /// All results in a report, also those of the baseline.
    pub fn new(report: &'a Report) -> Self {
        let of = match report.compared {
            Some(_) => "the old run",
            None => report.baseline(),
        };
        let mut results = HashMap::new();
        for row in &report.results {
            results.entry((&*row.label, &*row.layer)).or_insert(row);
        }
        let measured = |name: &str| report.results.iter().any(|r| r.layer == name);
        let layers = report.layers.iter();
        let columns = layers.filter(|l| !l.control && measured(&l.name));
        let columns: Vec<MatrixColumn> = columns
            .map(|l| MatrixColumn {
                name: &l.name,
                head: l.name.clone(),
                about: &l.about,
                brief: &l.brief,
                is_baseline: l.baseline,
            })
            .collect();
        let row = |label: &'a str| {
            let cells = columns.iter().map(|column| {
                let found = results.get(&(label, column.name));
                MatrixCell::new(found.copied(), of)
            });
            MatrixRow {
                label,
                is_application: false,
                cells: cells.collect(),
            }
        };
        let applications = report.results.iter();
        let applications = applications.filter(|r| Everyday::is_application(&r.meaning));
        let applications: HashSet<&str> = applications.map(|r| r.label.as_str()).collect();
        let mut rows: Vec<MatrixRow> = report.points().into_iter().map(row).collect();
        for row in &mut rows {
            row.is_application = applications.contains(row.label);
        }
        rows.sort_by_key(|row| !row.is_application);
        Self {
            columns,
            rows,
            common: Vec::new(),
            ratio: ratio_of(report),
            unit: Unit::Time,
        }
        .with_heads()
    }

    /// The same in another unit. The baseline has a column if the cells are not ratios to it.
    pub fn in_unit(&self, unit: Unit) -> Self {
        let shown = |column: &MatrixColumn| unit != Unit::Ratio || !column.is_baseline;
        let shown: Vec<bool> = self.columns.iter().map(shown).collect();
        let mut own = Self {
            unit,
            ..self.clone()
        };
        keep(&mut own.columns, &shown);
        for row in &mut own.rows {
            keep(&mut row.cells, &shown);
        }
        own.with_heads()
    }

    /// The ratios.
    pub fn ratios(&self) -> Self {
        self.in_unit(Unit::Ratio)
    }

    fn with_heads(mut self) -> Self {
        let names: Vec<&str> = self.columns.iter().map(|c| c.name).collect();
        let (heads, common) = short_names(&names);
        for (column, head) in self.columns.iter_mut().zip(heads) {
            column.head = head;
        }
        Self { common, ..self }
    }

    /// A cell as text.
    pub fn text(&self, cell: &MatrixCell) -> String {
        cell.text(self.unit)
    }

    /// All cells.
    pub fn cells(&self) -> impl Iterator<Item = &MatrixCell<'a>> {
        self.rows.iter().flat_map(|row| &row.cells)
    }

    /// The meaning of the cells, for below the table. Of the signs, only those that occur.
    pub fn legend(&self) -> String {
        let common = &self.common;
        let legend = match self.unit {
            Unit::Time => words::of_times(common),
            Unit::Throughput => words::of_results(common),
            Unit::Ratio => {
                let used = self.cells().map(|cell| cell.signs);
                let used = used.fold(SignSet::default(), SignSet::and);
                let used = Sign::ALL.into_iter().filter(|sign| used.has(*sign));
                let signs: Vec<_> = used.map(|s| [s.shown(), s.meaning()]).collect();
                words::of_ratios(&self.ratio, &signs, common)
            }
        };
        legend.into()
    }

    /// What the layers are, in a few words each, with the heads that these words are about.
    pub fn explained(&self) -> Vec<(String, &'a str)> {
        explained(&self.columns)
    }

    /// [`Self::explained`] as text: `tmpfs (files in memory); fuse (our own file system in user space)`.
    pub fn explanation(&self) -> String {
        explanations(self.explained()).join("; ")
    }

    /// The parts of [`Self::explanation`], those of the layers in `first` before the others.
    pub fn explanations_of(&self, first: &[&str]) -> Vec<String> {
        let rank = |column: &&MatrixColumn| {
            let place = first.iter().position(|layer| *layer == column.name);
            place.unwrap_or(first.len())
        };
        let mut order: Vec<&MatrixColumn> = self.columns.iter().collect();
        order.sort_by_key(rank);
        explanations(explained(order))
    }

    /// Keeps at most `most` points: the applications, those with a layer's largest decided difference, then those with
    /// the next largest of any layer, in this order. Otherwise a layer that is slow at a few points
    /// would look free beside one that is very slow at others.
    pub fn largest(mut self, most: usize) -> Self {
        let sizes: Vec<f64> = self.rows.iter().map(MatrixRow::size).collect();
        let in_layer = |layer: usize, point: usize| self.rows[point].cells[layer].size();
        let worst: Vec<usize> = (0..self.columns.len())
            .filter_map(|layer| {
                let points = (0..sizes.len()).filter(|point| in_layer(layer, *point) > 0.0);
                points.max_by(|a, b| in_layer(layer, *a).total_cmp(&in_layer(layer, *b)))
            })
            .collect();
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by(|a, b| sizes[*b].total_cmp(&sizes[*a]));
        order.sort_by_key(|point| !worst.contains(point));
        order.sort_by_key(|point| !self.rows[*point].is_application);
        order.truncate(most);
        let kept: Vec<bool> = (0..sizes.len()).map(|n| order.contains(&n)).collect();
        keep(&mut self.rows, &kept);
        self
    }
}

/// Keeps those of `all` that are marked.
fn keep<T>(all: &mut Vec<T>, marked: &[bool]) {
    let mut marks = marked.iter();
    all.retain(|_| marks.next().is_some_and(|mark| *mark));
}

fn explained<'c, 'a: 'c>(
    columns: impl IntoIterator<Item = &'c MatrixColumn<'a>>,
) -> Vec<(String, &'a str)> {
    let columns = columns.into_iter().filter(|c| !c.brief.is_empty());
    let alike = group::grouped(columns.map(|c| (c.brief, c.head.as_str())));
    let alike = alike.into_iter();
    alike
        .map(|(brief, heads)| (heads.join(", "), brief))
        .collect()
}

fn explanations(explained: Vec<(String, &str)>) -> Vec<String> {
    let each = explained.into_iter();
    each.map(|(heads, brief)| words::explained(&heads, brief).into())
        .collect()
}

/// The meaning of a ratio in the report.
pub fn ratio_of(report: &Report) -> String {
    let Some(compared) = &report.compared else {
        return words::in_layer_over(report.baseline()).into();
    };
    let mut others = report.layers.iter().map(|l| l.name.as_str());
    let baseline = compared.baseline.as_deref();
    let taken_out = baseline.filter(|baseline| others.any(|name| name != *baseline));
    words::now_over_then(taken_out).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Estimate, ResultRow, Verdict, number};
    use layermark_testkit::sample::Sample;

    /// Three points of two layers: the second is slowest where the first is nearly free.
    #[test]
    fn the_worst_of_each_layer_comes_before_the_next_of_another() {
        let row = |ratio: f64| ResultRow {
            trials: 1,
            verdict: Verdict::Slower,
            ratio: Some(Estimate {
                estimate: ratio,
                interval: None,
                average: None,
            }),
            ..ResultRow::default()
        };
        let ratios = [[12.0, 1.1], [9.0, 1.2], [1.1, 3.0]].map(|of| of.map(row));
        let (run, trials) = Sample::default().build();
        let report = Report::build(&run, &trials);
        let all = Matrix::new(&report).ratios();
        let all = Matrix {
            columns: all.columns[..2].to_vec(),
            rows: ["a", "b", "c"]
                .into_iter()
                .zip(&ratios)
                .map(|(label, of)| MatrixRow {
                    label,
                    is_application: label == "c",
                    cells: of
                        .iter()
                        .map(|r| MatrixCell::new(Some(r), "native"))
                        .collect(),
                })
                .collect(),
            ..all
        };
        let mut plain = all.clone();
        plain
            .rows
            .iter_mut()
            .for_each(|row| row.is_application = false);
        let kept = |all: Matrix, most: usize| -> Vec<String> {
            let kept = all.largest(most).rows;
            kept.iter().map(|row| row.label.to_owned()).collect()
        };
        assert_eq!(kept(plain, 2), ["a", "c"]);
        assert_eq!(kept(all, 1), ["c"], "an application is always shown");
    }

    #[test]
    fn every_point_and_compared_layer_has_a_cell_and_few_points_are_the_largest() {
        let (run, trials) = Sample::default().build();
        let report = Report::build(&run, &trials);
        let all = Matrix::new(&report).ratios();
        assert!(!all.columns.is_empty() && all.columns.iter().all(|c| c.name != "native"));
        assert_eq!(all.rows.len(), report.points().len());
        let full = |row: &MatrixRow| row.cells.len() == all.columns.len();
        assert!(all.rows.iter().all(full));
        let largest = all.rows.iter().map(MatrixRow::size).fold(0.0, f64::max);
        let few = all.clone().largest(2);
        assert_eq!(few.rows.len(), 2);
        assert!(few.rows.iter().any(|r| (r.size() - largest).abs() < 1e-12));
    }

    #[test]
    fn times_and_throughput_have_a_column_for_native() {
        let (run, trials) = Sample::default().build();
        let report = Report::build(&run, &trials);
        for unit in [Unit::Time, Unit::Throughput] {
            let all = Matrix::new(&report).in_unit(unit);
            assert_eq!(all.columns[0].name, "native");
            for MatrixRow { label, cells, .. } in &all.rows {
                let row = report
                    .results
                    .iter()
                    .find(|r| r.label == *label && r.layer == "native");
                let row = row.expect("a result");
                let number = match unit {
                    Unit::Time => number::time(row.op_us.expect("a time")),
                    _ => number::result_value(row),
                };
                assert_eq!(all.text(&cells[0]), number);
            }
        }
    }

    #[test]
    fn layers_of_one_kind_are_explained_together() {
        let (run, trials) = Sample::default().build();
        let mut report = Report::build(&run, &trials);
        assert_eq!(Matrix::new(&report).ratios().explanation(), "");
        let briefs = [
            "the base directory",
            "overlayfs, files on top",
            "overlayfs, files on top",
        ];
        for (layer, brief) in report.layers.iter_mut().zip(briefs) {
            layer.brief = brief.into();
        }
        let told = format!(
            "{}, {} (overlayfs, files on top)",
            report.layers[1].name, report.layers[2].name
        );
        assert_eq!(Matrix::new(&report).ratios().explanation(), told);
        let json = serde_json::to_vec(&report).unwrap();
        let read = Report::from_json(&json).unwrap();
        assert_eq!(
            Matrix::new(&read).ratios().explanation(),
            told,
            "read from JSON"
        );
    }

    #[test]
    fn a_ratio_without_a_verdict_is_in_the_legend() {
        let (run, trials) = Sample::default().build();
        let mut report = Report::build(&run, &trials);
        let told = "; (1.80x) no verdict asked";
        assert!(!Matrix::new(&report).ratios().legend().contains(told));
        let asked = report.results.iter_mut();
        for row in asked.filter(|r| r.verdict == Verdict::Slower) {
            row.verdict = Verdict::Descriptive;
        }
        assert!(Matrix::new(&report).ratios().legend().contains(told));
    }
}
