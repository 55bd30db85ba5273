//! `JUnit` XML, which CI systems show as test results. A test suite is a layer compared with the
//! baseline, a test case a verdict. Undecided cases are skipped. Only a missed gate is a failure.

use std::io::Write;

use maud::{Markup, PreEscaped, html};

use super::{Exporter, Files};
use crate::{
    FleetCheck, HostWord, Report,
    tables::cases::{Suite, suites},
};

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
        let suites = suites(report);
        let tests: usize = suites.iter().map(|s| s.cases.len()).sum();
        let failures: usize = suites.iter().map(Suite::failures).sum();
        let xml = html! {
            (PreEscaped(HEAD)) (report.generated_by) (PreEscaped(" -->\n"))
            testsuites name=(format!("layermark {}", report.label)) tests=(tests) failures=(failures) errors="0" {
                "\n"
                @for suite in &suites { (write(suite, report)) }
            }
            "\n"
        };
        out.open("")?.write_all(xml.into_string().as_bytes())?;
        Ok(())
    }
}

/// The program and version follow: `layermark 0.1.0`.
const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- ";

fn write(suite: &Suite, report: &Report) -> Markup {
    let skipped = suite.cases.iter().filter(|c| c.skipped.is_some()).count();
    html! {
        testsuite name=(suite.layer()) tests=(suite.cases.len()) failures=(suite.failures()) errors="0" skipped=(skipped)
            timestamp=(report.started) {
            "\n"
            properties {
                @for (name, value) in suite.properties(report) { property name=(name) value=(value) {} "\n" }
            }
            "\n"
            @for case in &suite.cases {
                testcase classname=(format!("{}.{}", report.label, suite.layer())) name=(case.name) time=[&case.time] {
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

/// A check of a fleet: a test case for each host. One that is odd or lost has failed; one of which nothing can be told is
/// skipped.
pub fn write_fleet(check: &FleetCheck, out: &mut dyn Write) -> anyhow::Result<()> {
    let count = |word: HostWord| check.hosts.iter().filter(|h| h.word == word).count();
    let failures = count(HostWord::Odd) + count(HostWord::Lost);
    let skipped = count(HostWord::CannotTell);
    let xml = html! {
        (PreEscaped(HEAD)) (check.generated_by) (PreEscaped(" -->\n"))
        testsuites name="layermark fleet check" tests=(check.hosts.len()) failures=(failures) errors="0" {
            "\n"
            testsuite name="hosts" tests=(check.hosts.len()) failures=(failures) errors="0" skipped=(skipped) {
                "\n"
                @for host in &check.hosts {
                    testcase classname="fleet" name=(host.name) {
                        @match host.word {
                            HostWord::Like => { system-out { (host.text) } }
                            HostWord::CannotTell => { skipped message=(host.text) {} }
                            HostWord::Odd => { failure type="odd" message=(host.text) {} }
                            HostWord::Lost => { failure type="lost" message=(host.text) {} }
                        }
                    }
                    "\n"
                }
            }
            "\n"
        }
        "\n"
    };
    out.write_all(xml.into_string().as_bytes())?;
    Ok(())
}
