//! Results as test cases: a suite for each layer that is compared with the baseline.

use crate::{
    GateRow, LayerReport, Report, ResultRow, Verdict, views::rows, words::machine::status,
};

/// The suites in the plan's order.
pub fn suites(report: &Report) -> Vec<Suite<'_>> {
    let compared = report.layers.iter().filter(|l| !l.baseline && !l.control);
    compared.map(|layer| Suite::of(report, layer)).collect()
}

/// The test case of a whole layer that was not measured.
const SET_UP: &str = "set up";

/// A layer.
pub struct Suite<'a> {
    layer: &'a LayerReport,
    /// Results, and what was left out.
    pub cases: Vec<TestCase<'a>>,
}

/// A point in a layer.
pub struct TestCase<'a> {
    /// The point.
    pub name: &'a str,
    /// Seconds per operation.
    pub time: Option<String>,
    /// Reason for the missing verdict.
    pub skipped: Option<String>,
    /// The missed gates, with reasons.
    pub failures: Vec<String>,
    /// The result in words.
    pub found: String,
}

impl<'a> Suite<'a> {
    fn of(report: &'a Report, layer: &'a LayerReport) -> Self {
        let rows = || report.results.iter().filter(|r| r.layer == layer.name);
        let left_out = report.left_out.iter().filter(|l| l.layer == layer.name);
        // A point that failed in every trial also has a row, with the reason.
        let without_row =
            left_out.filter(|l| rows().all(|row| Some(&*row.label) != l.point.as_deref()));
        let missing = without_row.map(|left| TestCase {
            name: left.point.as_deref().unwrap_or(SET_UP),
            time: None,
            skipped: Some(match &left.hint {
                Some(hint) => format!("{}; hint: {hint}", left.reason),
                None => left.reason.clone(),
            }),
            failures: Vec::new(),
            found: String::new(),
        });
        let mut cases: Vec<TestCase> = rows().map(TestCase::of).chain(missing).collect();
        for gate in report.failed_gates().filter(|g| g.layer == layer.name) {
            if let Some(case) = cases.iter_mut().find(|case| case.name == gate.point) {
                case.fail(gate);
            }
        }
        Self { layer, cases }
    }

    /// The layer's name.
    pub fn layer(&self) -> &'a str {
        &self.layer.name
    }

    /// How many cases failed.
    pub fn failures(&self) -> usize {
        let failed = |case: &&TestCase| !case.failures.is_empty();
        self.cases.iter().filter(failed).count()
    }

    /// What a suite says of its run and of its layer.
    pub fn properties(&self, report: &'a Report) -> Vec<(&'static str, String)> {
        let machine = &report.machine;
        let properties = [
            ("run", report.run.as_str()),
            ("plan", &report.label),
            ("seed", &report.seed.to_string()),
            ("status", status(report.status)),
            ("layer", &self.layer.spec),
            ("machine.cpu", &machine.cpu),
            ("machine.kernel", &machine.kernel),
            ("machine.os", &machine.os),
            ("machine.base", &machine.base),
        ];
        properties
            .map(|(name, value)| (name, value.to_owned()))
            .into()
    }
}

/// The numbers of a line of a result, with their words.
fn found_of(numbers: &rows::Numbers) -> [String; 3] {
    let some = |text: String, words: fn(&str) -> String| match text.as_str() {
        "" => String::new(),
        text => words(text),
    };
    let mut ratio = some(numbers.ratio(), |text| format!("ratio {text}"));
    if !numbers.of.is_empty() {
        ratio = format!("{}: {ratio}", numbers.of);
    }
    let time = some(numbers.time(), |text| format!("{text} an operation"));
    let time = match numbers.baseline().as_str() {
        "" => time,
        beside => format!("{time} beside the baseline's {beside}"),
    };
    [ratio, numbers.extra(), time]
}

impl<'a> TestCase<'a> {
    fn of(row: &'a ResultRow) -> Self {
        let word = match row.verdict {
            _ if row.trials == 0 => "failed",
            Verdict::Descriptive => "no verdict was asked for",
            _ => row.word(),
        };
        let why = rows::Notes::default().of(row);
        let told = if why.is_empty() {
            word.to_owned()
        } else {
            format!("{word}: {why}")
        };
        let judged = row.verdict.is_decided();
        let mut found: Vec<String> = rows::numbers(row).iter().flat_map(found_of).collect();
        found.push(rows::label(row));
        found.retain(|part| !part.is_empty());
        let found = found.join(", ");
        Self {
            name: &row.label,
            time: row.op_us.map(|us| format!("{:.9}", us / 1e6)),
            found: if judged {
                format!("{told}; {found}")
            } else {
                found
            },
            skipped: (!judged).then_some(told),
            failures: Vec::new(),
        }
    }

    fn fail(&mut self, gate: &GateRow) {
        self.skipped = None;
        self.failures.push(format!("{}: {}", gate.gate, gate.text));
    }
}
