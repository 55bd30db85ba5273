//! `JUnit` XML, which CI systems show as test results. A test suite is a layer compared with the
//! baseline, a test case a verdict. Undecided cases are skipped. Only a missed gate is a failure.

use maud::{Markup, PreEscaped, html};

use super::{Exporter, Files};
use crate::{GateRow, LayerReport, Report, ResultRow, Verdict, views::rows};

/// See the module.
pub struct Junit;

impl Exporter for Junit {
    fn id(&self) -> &'static str {
        "junit"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["junit.xml"]
    }

    fn write(&self, report: &Report, out: &mut dyn Files) -> anyhow::Result<()> {
        let compared = report.layers.iter().filter(|l| !l.baseline && !l.control);
        let suites: Vec<Suite> = compared.map(|layer| Suite::of(report, layer)).collect();
        let tests: usize = suites.iter().map(|s| s.cases.len()).sum();
        let failures: usize = suites.iter().map(Suite::failures).sum();
        let xml = html! {
            (PreEscaped(HEAD)) (report.generated_by) (PreEscaped(" -->\n"))
            testsuites name=(format!("layermark {}", report.label)) tests=(tests) failures=(failures) errors="0" {
                "\n"
                @for suite in &suites { (suite.write(report)) }
            }
            "\n"
        };
        out.open("")?.write_all(xml.into_string().as_bytes())?;
        Ok(())
    }
}

/// The program and version follow: `layermark 0.1.0`.
const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- ";

/// The test case of a whole layer that was not measured.
const SET_UP: &str = "set up";

/// A layer.
struct Suite<'a> {
    layer: &'a LayerReport,
    cases: Vec<Case<'a>>,
}

/// A point in a layer.
struct Case<'a> {
    name: &'a str,
    /// Seconds per operation.
    time: Option<String>,
    /// Reason for the missing verdict.
    skipped: Option<String>,
    /// The missed gates, with reasons.
    failures: Vec<String>,
    /// The result in words.
    found: String,
}

impl<'a> Suite<'a> {
    fn of(report: &'a Report, layer: &'a LayerReport) -> Self {
        let rows = || report.results.iter().filter(|r| r.layer == layer.name);
        let left_out = report.left_out.iter().filter(|l| l.layer == layer.name);
        // A point that failed in every trial also has a row, with the reason.
        let without_row =
            left_out.filter(|l| rows().all(|row| Some(&*row.label) != l.point.as_deref()));
        let missing = without_row.map(|left| Case {
            name: left.point.as_deref().unwrap_or(SET_UP),
            time: None,
            skipped: Some(match &left.hint {
                Some(hint) => format!("{}; hint: {hint}", left.reason),
                None => left.reason.clone(),
            }),
            failures: Vec::new(),
            found: String::new(),
        });
        let mut cases: Vec<Case> = rows().map(Case::of).chain(missing).collect();
        for gate in report.failed_gates().filter(|g| g.layer == layer.name) {
            if let Some(case) = cases.iter_mut().find(|case| case.name == gate.point) {
                case.fail(gate);
            }
        }
        Self { layer, cases }
    }

    fn failures(&self) -> usize {
        let failed = |case: &&Case| !case.failures.is_empty();
        self.cases.iter().filter(failed).count()
    }

    fn write(&self, report: &Report) -> Markup {
        let (layer, machine) = (self.layer, &report.machine);
        let properties = [
            ("run", report.run.as_str()),
            ("plan", &report.label),
            ("seed", &report.seed.to_string()),
            ("status", rows::status(report)),
            ("layer", &layer.spec),
            ("machine.cpu", &machine.cpu),
            ("machine.kernel", &machine.kernel),
            ("machine.os", &machine.os),
            ("machine.base", &machine.base),
        ];
        let skipped = self.cases.iter().filter(|c| c.skipped.is_some()).count();
        html! {
            testsuite name=(layer.name) tests=(self.cases.len()) failures=(self.failures()) errors="0" skipped=(skipped)
                timestamp=(report.started) {
                "\n"
                properties {
                    @for (name, value) in properties { property name=(name) value=(value) {} "\n" }
                }
                "\n"
                @for case in &self.cases {
                    testcase classname=(format!("{}.{}", report.label, layer.name)) name=(case.name) time=[&case.time] {
                        @if let Some(why) = &case.skipped { skipped message=(why) {} }
                        @for why in &case.failures { failure type="gate" message=(why) {} }
                        @if !case.found.is_empty() { system-out { (case.found) } }
                    }
                    "\n"
                }
            }
            "\n"
        }
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

impl<'a> Case<'a> {
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
