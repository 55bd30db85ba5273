//! The answer in one table: operations as rows, layers as columns, the ratio in each cell.

use crate::{
    Report, ResultRow, Verdict,
    analysis::stalls,
    code_span::in_baseline,
    number,
    statements::remarks,
    words::{Names, Words},
};

/// Signs that replace a ratio, or precede it.
const SIGNS: [(&str, &str); 11] = [
    (FASTER, "a ratio of 1/3.0"),
    ("~", "probably"),
    ("=", "same"),
    (NOISY, "too noisy for a verdict"),
    ("?", "no verdict: too few blocks"),
    (DRIFTS, "no steady state, so no number"),
    (WAITS, "no verdict: too much of the time waited for a CPU"),
    ("!", "not trusted"),
    ("-", "none"),
    ("(", "no verdict asked"),
    (
        stalls::SIGN,
        "usual time alone: a few operations take so long that the average is far from it",
    ),
];

/// Two such numbers may be of different rounds, and of the baseline on other CPUs. Their quotient can be
/// far from the ratio.
pub const CENTRES: &str = "the typical one. Do not divide them: ratios compare neighbouring turns";

/// The word after the inverse of a ratio.
const FASTER: &str = "x faster";
/// The sign between an estimate and the half-width of its interval.
const NOISY: &str = "\u{b1}";
/// The sign without a number: the ratio changed during the run.
const DRIFTS: &str = "?drift";
/// The sign of a result without a verdict because it waited for a CPU.
const WAITS: &str = "?cpu";

/// The sign where nothing came in time: the number would be the wait.
const NOT_SEEN: &str = "not seen";

/// What the cells show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Time in the layer over the baseline's, or the verdict's sign.
    Ratio,
    /// Time an operation.
    Time,
    /// Throughput, or the result in its workload's unit.
    Throughput,
}

/// Results by point and layer; the baseline has a column if the cells are not ratios to it.
#[derive(Clone)]
pub struct Overview<'a> {
    /// Names of the compared layers, in the plan's order.
    pub layers: Vec<&'a str>,
    /// Their names for heads: without what all layers of a kind have in common.
    pub heads: Vec<String>,
    /// What each layer is, in one line; may be empty.
    pub abouts: Vec<&'a str>,
    /// What the heads leave out, such as `all vm: cache=none`.
    common: Vec<String>,
    /// Label of each point and its result in each layer.
    pub points: Vec<(&'a str, Vec<Option<&'a ResultRow>>)>,
    /// The meaning of a ratio.
    ratio: String,
    /// Whose time a ratio is a multiple of.
    of: &'a str,
    /// What the cells show.
    unit: Unit,
}

fn explanations(explained: Vec<(String, &str)>) -> Vec<String> {
    let each = explained.into_iter();
    each.map(|(heads, words)| format!("{heads} ({words})"))
        .collect()
}

impl<'a> Overview<'a> {
    /// The ratios of all results in a report.
    pub fn new(report: &'a Report) -> Self {
        Self::in_unit(report, Unit::Ratio)
    }

    /// All results in a report.
    pub fn in_unit(report: &'a Report, unit: Unit) -> Self {
        let shown = |baseline: bool| unit != Unit::Ratio || !baseline;
        let measured = |name: &str| report.results.iter().any(|r| r.layer == name);
        let own = report.layers.iter();
        let own = own.filter(|l| shown(l.baseline) && !l.control && measured(&l.name));
        let own = own.map(|l| (l.name.as_str(), l.about.as_str()));
        let (layers, abouts): (Vec<&str>, Vec<&str>) = own.unzip();
        let cell = |label: &str, layer: &str| {
            let mut rows = report.results.iter();
            rows.find(|r| r.label == label && r.layer == layer)
        };
        let (heads, common) = short_names(&layers);
        let labels = report.points().into_iter();
        let points = labels.map(|label| (label, layers.iter().map(|l| cell(label, l)).collect()));
        Self {
            points: points.collect(),
            layers,
            heads,
            abouts,
            common,
            ratio: ratio_of(report),
            of: match report.compared {
                Some(_) => "the old run",
                None => report.baseline(),
            },
            unit,
        }
    }

    /// The meaning of the cells, for below the table. Of the signs, only those that occur.
    pub fn legend(&self) -> String {
        let common = self.common.iter().map(|common| format!("; {common}"));
        let common: String = common.collect();
        match self.unit {
            Unit::Ratio => {}
            Unit::Time => {
                return format!("time of an operation: {CENTRES}; - none{common}");
            }
            Unit::Throughput => {
                return format!("the result in its unit: {CENTRES}; - none{common}");
            }
        }
        let cells = || self.points.iter().flat_map(|(_, cells)| cells);
        let has = |shown: &str, of: &str| {
            // `?drift` and `?cpu` have lines of their own.
            let own_line = [DRIFTS, WAITS].iter().any(|sign| shown.contains(sign));
            shown.contains(of) && !(of == "?" && own_line)
        };
        let used = SIGNS
            .iter()
            .filter(|(s, _)| cells().any(|c| has(&sign(*c), s)));
        let shown = |sign: &'static str| match sign {
            "(" => "(1.80x)",
            FASTER => "3.0x faster:",
            NOISY => "0.97 \u{b1}5%:",
            sign => sign,
        };
        let signs = used.map(|(sign, words)| format!("; {} {words}", shown(sign)));
        format!("1.80x: {}{}{common}", self.ratio, signs.collect::<String>())
    }

    /// What the layers are, in a few words each, with the heads that these words are about.
    pub fn explained(&self) -> Vec<(String, &'a str)> {
        self.explained_in(0..self.layers.len())
    }

    /// The same in another order of layers.
    fn explained_in(&self, order: impl IntoIterator<Item = usize>) -> Vec<(String, &'a str)> {
        let mut said: Vec<(String, &str)> = Vec::new();
        for (head, about) in order.into_iter().map(|n| (&self.heads[n], self.abouts[n])) {
            // The rest is detail, in `layermark layers`.
            let words = about.split([':', ';', '(']).next().unwrap_or_default();
            match said.iter_mut().find(|(_, known)| *known == words.trim()) {
                Some((heads, _)) => *heads = format!("{heads}, {head}"),
                None if words.is_empty() => {}
                None => said.push((head.clone(), words.trim())),
            }
        }
        said
    }

    /// [`Self::explained`] as text: `tmpfs (files in memory); fuse (our own file system in user space)`.
    pub fn explanation(&self) -> String {
        explanations(self.explained()).join("; ")
    }

    /// The parts of [`Self::explanation`], those of the layers in `first` before the others.
    pub fn explanations_of(&self, first: &[&str]) -> Vec<String> {
        let rank = |n: &usize| {
            let place = first.iter().position(|layer| *layer == self.layers[*n]);
            place.unwrap_or(first.len())
        };
        let mut order: Vec<usize> = (0..self.layers.len()).collect();
        order.sort_by_key(rank);
        explanations(self.explained_in(order))
    }

    /// What a cell shows.
    pub fn cell(&self, row: Option<&ResultRow>) -> String {
        absolute(row, self.unit).unwrap_or_else(|| sign(row))
    }

    /// The sign of a cell in words: `slower: 1.80 times native's time, 1.75 to 1.85`.
    pub fn words(&self, row: Option<&ResultRow>) -> String {
        let Some(row) = row.filter(|r| r.trials > 0) else {
            return "not measured".into();
        };
        let word = row.word();
        if row.not_seen() {
            let wait = number::time(row.op_us.unwrap_or_default());
            return format!("not seen within {wait}");
        }
        let Some(written) = number::Written::in_row(row) else {
            return word.into();
        };
        let joint = if word.is_empty() { "" } else { ": " };
        let span = written
            .ends()
            .map(|[low, high]| format!(", {low} to {high}"));
        let (times, of) = (written.ratio(), self.of);
        let ratio = if written.is_inverse() {
            format!("{times} than {of}")
        } else {
            format!("{times} times {of}'s time")
        };
        let stalls = remarks::stalls(row)
            .map(|r| format!("; {}", r.words(&Names { baseline: of }).unmarked()));
        format!(
            "{word}{joint}{ratio}{}{}",
            span.unwrap_or_default(),
            stalls.unwrap_or_default()
        )
    }

    /// Keeps at most `most` points: those with a layer's largest decided difference, then those with the
    /// next largest of any layer, in the plan's order. Otherwise a layer that is slow at a few points
    /// would look free beside one that is very slow at others.
    pub fn largest(mut self, most: usize) -> Self {
        let sizes: Vec<f64> = self.points.iter().map(|(_, cells)| size(cells)).collect();
        let in_layer = |layer: usize, point: usize| size(&self.points[point].1[layer..=layer]);
        let worst: Vec<usize> = (0..self.layers.len())
            .filter_map(|layer| {
                let points = (0..sizes.len()).filter(|point| in_layer(layer, *point) > 0.0);
                points.max_by(|a, b| in_layer(layer, *a).total_cmp(&in_layer(layer, *b)))
            })
            .collect();
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by(|a, b| sizes[*b].total_cmp(&sizes[*a]));
        order.sort_by_key(|point| !worst.contains(point));
        order.truncate(most);
        let mut at = 0..;
        self.points
            .retain(|_| at.next().is_some_and(|n| order.contains(&n)));
        self
    }
}

/// A number that is not a ratio. None in a matrix of ratios.
pub fn absolute(row: Option<&ResultRow>, unit: Unit) -> Option<String> {
    let row = row.filter(|r| r.trials > 0);
    let text = match unit {
        Unit::Ratio => return None,
        Unit::Time => row.and_then(|r| r.op_us).map(number::time),
        Unit::Throughput => row.filter(|r| r.value.is_some()).map(number::result_value),
    };
    if row.is_some_and(ResultRow::not_seen) {
        return Some(NOT_SEEN.into());
    }
    Some(text.unwrap_or_else(|| "-".into()))
}

/// Names without the options that all layers of a kind share, and those options. Names stay as they
/// are where they would not differ from each other.
pub fn short_names(names: &[&str]) -> (Vec<String>, Vec<String>) {
    let (mut heads, mut common): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for name in names {
        let kind = kind_of(name);
        let alike: Vec<&str> = names
            .iter()
            .copied()
            .filter(|n| kind_of(n) == kind)
            .collect();
        let shared = |option: &str| {
            let has = |n: &&str| options(n).any(|other| other == option);
            // A quoted command is kept whole.
            alike.len() > 1 && alike.iter().all(|n| has(n) && !n.contains(['\'', '"']))
        };
        let (own, left_out): (Vec<&str>, Vec<&str>) = options(name).partition(|o| !shared(o));
        let head = if own.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}:{}", own.join(","))
        };
        heads.push(head);
        let told = format!("every {kind} has {}", left_out.join(","));
        if !left_out.is_empty() && !common.contains(&told) {
            common.push(told);
        }
    }
    let unique: std::collections::BTreeSet<&String> = heads.iter().collect();
    if unique.len() < names.len() {
        return (names.iter().map(|n| (*n).to_owned()).collect(), Vec::new());
    }
    (heads, common)
}

/// The name before the options.
fn kind_of(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

/// The variant and the options of a layer, as written.
fn options(name: &str) -> impl Iterator<Item = &str> {
    let rest = name.split_once(':').map_or("", |(_, rest)| rest);
    rest.split(',').filter(|o| !o.is_empty())
}

/// The meaning of a ratio in the report.
pub fn ratio_of(report: &Report) -> String {
    let Some(compared) = &report.compared else {
        return format!("time in the layer / {}", in_baseline(report.baseline()));
    };
    let mut others = report.layers.iter().map(|l| l.name.as_str());
    match compared.baseline.as_deref() {
        Some(baseline) if others.any(|name| name != baseline) => {
            format!(
                "time now / in the old run, {baseline}'s own change taken out of the other layers"
            )
        }
        _ => "time now / in the old run".into(),
    }
}

/// The largest decided difference among the layers, as |ln ratio|.
fn size(cells: &[Option<&ResultRow>]) -> f64 {
    let decided = |r: &&ResultRow| matches!(r.verdict, Verdict::Slower | Verdict::Faster);
    let ratios = cells.iter().flatten().filter(|r| decided(r));
    let sizes = ratios.filter_map(|r| Some(r.ratio?.estimate.ln().abs()));
    sizes.fold(0.0, f64::max)
}

/// The ratio, or one sign for the verdict. With stalls, a sign follows.
pub fn sign(row: Option<&ResultRow>) -> String {
    let Some(row) = row.filter(|r| r.trials > 0) else {
        return "-".into();
    };
    if row.not_seen() {
        return NOT_SEEN.into();
    }
    // Without a steady state, a direction may be known but no number.
    let ratio = || {
        let word = row.leaning().word().to_owned();
        number::Written::in_row(row).map_or(word, |r| r.times())
    };
    let sign = match row.verdict {
        Verdict::Same => "=".into(),
        Verdict::Slower | Verdict::Faster => ratio(),
        Verdict::Undecided if row.withheld.is_some() => WAITS.into(),
        Verdict::Undecided if row.probably.is_some() => format!("~{}", ratio()),
        // The estimate, although it is not known on which side of 1 the ratio is.
        Verdict::Undecided => number::Written::in_row(row).map_or(DRIFTS.into(), |r| {
            r.noisy().unwrap_or_else(|| format!("?{}", r.times()))
        }),
        Verdict::Untrusted => "!".into(),
        Verdict::Descriptive | Verdict::Baseline => format!("({})", ratio()),
    };
    sign + stalls::sign(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use layermark_testkit::sample::Sample;

    /// Three points of two layers: the second is slowest where the first is nearly free.
    #[test]
    fn the_worst_of_each_layer_comes_before_the_next_of_another() {
        let row = |ratio: f64| ResultRow {
            trials: 1,
            verdict: Verdict::Slower,
            ratio: Some(crate::types::Estimate {
                estimate: ratio,
                interval: None,
                average: None,
            }),
            ..ResultRow::default()
        };
        let ratios = [[12.0, 1.1], [9.0, 1.2], [1.1, 3.0]].map(|of| of.map(row));
        let (run, trials) = Sample::default().build();
        let report = Report::build(&run, &trials);
        let all = Overview {
            layers: vec!["fuse", "image:squashfs"],
            points: ["a", "b", "c"]
                .into_iter()
                .zip(ratios.iter().map(|of| of.iter().map(Some).collect()))
                .collect(),
            ..Overview::new(&report)
        };
        let kept = all.largest(2).points;
        let kept: Vec<&str> = kept.into_iter().map(|(label, _)| label).collect();
        assert_eq!(kept, ["a", "c"]);
    }

    #[test]
    fn every_point_and_compared_layer_has_a_cell_and_few_points_are_the_largest() {
        let (run, trials) = Sample::default().build();
        let report = Report::build(&run, &trials);
        let all = Overview::new(&report);
        assert!(!all.layers.contains(&"native") && !all.layers.is_empty());
        assert_eq!(all.points.len(), report.points().len());
        assert!(all.points.iter().all(|(_, c)| c.len() == all.layers.len()));
        let largest = all.points.iter().map(|(_, c)| size(c)).fold(0.0, f64::max);
        let few = all.clone().largest(2);
        assert_eq!(few.points.len(), 2);
        assert!(
            few.points
                .iter()
                .any(|(_, c)| (size(c) - largest).abs() < 1e-12)
        );
        assert_eq!(sign(None), "-");
        // Too noisy, too few blocks, no steady state: never a bare `?`.
        let noisy = ResultRow {
            trials: 1,
            verdict: Verdict::Undecided,
            ratio: Some(crate::types::Estimate {
                estimate: 0.97,
                interval: None,
                average: None,
            }),
            ..ResultRow::default()
        };
        assert_eq!(sign(Some(&noisy)), "?0.97x");
        let few = ResultRow {
            more_blocks: Some(2),
            ..noisy.clone()
        };
        assert_eq!(sign(Some(&few)), "?0.97x");
        let wide = ResultRow {
            ratio: Some(crate::types::Estimate {
                estimate: 0.97,
                interval: Some([0.925, 1.016]),
                average: None,
            }),
            ..noisy.clone()
        };
        assert_eq!(sign(Some(&wide)), "0.97 \u{b1}5%");
        let drifting = ResultRow {
            ratio: None,
            ..noisy
        };
        assert_eq!(sign(Some(&drifting)), "?drift");
    }

    #[test]
    fn times_and_throughput_have_a_column_for_native() {
        let (run, trials) = Sample::default().build();
        let report = Report::build(&run, &trials);
        for unit in [Unit::Time, Unit::Throughput] {
            let all = Overview::in_unit(&report, unit);
            assert_eq!(all.layers[0], "native");
            for (label, cells) in &all.points {
                let row = report
                    .results
                    .iter()
                    .find(|r| r.label == *label && r.layer == "native");
                let row = row.expect("a result");
                let number = match unit {
                    Unit::Time => number::time(row.op_us.expect("a time")),
                    _ => number::result_value(row),
                };
                assert_eq!(all.cell(cells[0]), number);
            }
        }
        assert!(!Overview::new(&report).layers.contains(&"native"));
    }

    #[test]
    fn heads_have_what_differs_between_layers() {
        let names = [
            "vm:cache=none,disk=ide",
            "vm:cache=none,disk=virtio-blk",
            "fuse",
        ];
        let (heads, common) = short_names(&names);
        assert_eq!(heads, ["vm:disk=ide", "vm:disk=virtio-blk", "fuse"]);
        assert_eq!(common, ["every vm has cache=none"]);
        // Only one of a kind, and two that do not differ, keep their names.
        let (heads, common) = short_names(&["vm:cache=none,disk=ide", "dir:/a,b"]);
        assert_eq!(heads, ["vm:cache=none,disk=ide", "dir:/a,b"]);
        assert!(common.is_empty());
        assert_eq!(short_names(&["vm:a,b", "vm:b,a"]).0, ["vm:a,b", "vm:b,a"]);
    }

    #[test]
    fn layers_of_one_kind_are_explained_together() {
        let (run, trials) = Sample::default().build();
        let mut report = Report::build(&run, &trials);
        assert_eq!(Overview::new(&report).explanation(), "");
        let abouts = [
            "the base directory",
            "overlayfs, files on top: as a container",
            "overlayfs, files on top",
        ];
        for (layer, about) in report.layers.iter_mut().zip(abouts) {
            layer.about = about.into();
        }
        let told = format!(
            "{}, {} (overlayfs, files on top)",
            report.layers[1].name, report.layers[2].name
        );
        assert_eq!(Overview::new(&report).explanation(), told);
    }

    #[test]
    fn a_ratio_without_a_verdict_is_in_the_legend() {
        let (run, trials) = Sample::default().build();
        let mut report = Report::build(&run, &trials);
        let told = "; (1.80x) no verdict asked";
        assert!(!Overview::new(&report).legend().contains(told));
        let asked = report.results.iter_mut();
        for row in asked.filter(|r| r.verdict == Verdict::Slower) {
            row.verdict = Verdict::Descriptive;
        }
        assert!(Overview::new(&report).legend().contains(told));
    }
}
