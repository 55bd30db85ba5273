//! Results as test cases: a suite for each layer that is compared with the baseline.

use crate::{
    GateRow, LayerReport, Report, ResultRow, Verdict,
    statements::notes::Notes,
    words::{Text, left_out, lists::said_of, machine::status, result_line},
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
            skipped: Some(left_out::with_hint(left).into()),
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

impl<'a> TestCase<'a> {
    fn of(row: &'a ResultRow) -> Self {
        let word = match row.verdict {
            _ if row.trials == 0 => "failed",
            Verdict::Descriptive => "no verdict was asked for",
            _ => row.word(),
        };
        let notes = Notes::default().of(row).words();
        let told = result_line::with_notes(word, notes);
        let judged = row.verdict.is_decided();
        let found = result_line::found(row);
        Self {
            name: &row.label,
            time: row.op_us.map(result_line::seconds),
            found: if judged {
                Text::joined([told.clone(), found], "; ").into()
            } else {
                found.into()
            },
            skipped: (!judged).then(|| told.into()),
            failures: Vec::new(),
        }
    }

    fn fail(&mut self, gate: &GateRow) {
        self.skipped = None;
        let failure = said_of(&gate.gate.as_str().into(), &gate.text);
        self.failures.push(failure.into());
    }
}
