//! `JUnit` XML: what `junit-10.xsd` of Jenkins's xUnit plugin allows, and what the file says.

use layermark_model::{Gate, LayerStatus};
use layermark_report::{GateState, Report, render};
use layermark_testkit::sample::Sample;
use quick_xml::{Reader, XmlVersion, escape::resolve_predefined_entity, events::Event};

/// An element: what may be in it, which attributes it must have, and which it may.
type Rule = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

/// Of the elements that we write.
const SCHEMA: &[Rule] = &[
    ("", &["testsuites"], &[], &[]),
    (
        "testsuites",
        &["testsuite"],
        &[],
        &["name", "time", "tests", "failures", "errors"],
    ),
    (
        "testsuite",
        &[
            "testsuite",
            "properties",
            "testcase",
            "system-out",
            "system-err",
        ],
        &["name", "tests", "failures", "errors"],
        &[
            "group",
            "time",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
            "file",
            "log",
            "url",
        ],
    ),
    ("properties", &["property"], &[], &[]),
    ("property", &[], &["name", "value"], &[]),
    (
        "testcase",
        &["skipped", "error", "failure", "system-out", "system-err"],
        &["name"],
        &["time", "classname", "group"],
    ),
    ("skipped", &[], &[], &["type", "message"]),
    ("failure", &[], &[], &["type", "message"]),
    ("system-out", &[], &[], &[]),
];

/// An element: its name, its attributes, and what is in it.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    fn get(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|(n, _)| n == name);
        found.map_or("", |(_, value)| value)
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |c| c.name == name)
    }

    fn check(&self) {
        let of = |name: &str| SCHEMA.iter().find(|row| row.0 == name);
        let (_, inside, must, may) = of(&self.name).expect(&self.name);
        let names: Vec<&str> = self.attributes.iter().map(|(n, _)| n.as_str()).collect();
        assert!(must.iter().all(|n| names.contains(n)), "{self:?}");
        assert!(
            names.iter().all(|n| must.contains(n) || may.contains(n)),
            "{self:?}"
        );
        // Only these hold words.
        let words = matches!(&*self.name, "system-out" | "skipped");
        assert!(words || self.text.trim().is_empty(), "{self:?}");
        for child in &self.children {
            assert!(inside.contains(&&*child.name), "{self:?}");
            child.check();
        }
    }
}

fn parse(text: &str) -> Element {
    let mut reader = Reader::from_str(text);
    let mut open = vec![Element::default()];
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Start(start) => {
                let attributes = start.attributes().map(|a| {
                    let a = a.expect("an attribute");
                    let value = a
                        .normalized_value(XmlVersion::Explicit1_0)
                        .expect("its value");
                    (a.key.0.to_owned(), value.into_owned())
                });
                open.push(Element {
                    name: start.name().0.to_owned(),
                    attributes: attributes.collect(),
                    ..Element::default()
                });
            }
            Event::End(_) => {
                let done = open.pop().unwrap();
                open.last_mut().unwrap().children.push(done);
            }
            Event::Text(words) => open.last_mut().unwrap().text += &words,
            Event::GeneralRef(name) => {
                let plain = resolve_predefined_entity(&name).expect("a known entity");
                open.last_mut().unwrap().text += plain;
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(open.len(), 1, "an element has no end");
    open.remove(0)
}

/// The file, checked against the schema, and its counts against what is in it.
fn written(report: &Report) -> (String, Element) {
    let mut out = Vec::new();
    let exporter = render::for_path("x.junit.xml".as_ref()).unwrap();
    exporter.write(report, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let document = parse(&text);
    document.check();
    let [root] = &document.children[..] else {
        panic!("one root element")
    };
    let (mut tests, mut failures) = (0, 0);
    for suite in root.all("testsuite") {
        let skipped = suite
            .all("testcase")
            .filter(|c| c.all("skipped").count() > 0);
        assert_eq!(suite.get("skipped"), skipped.count().to_string());
        assert_eq!(
            suite.get("tests"),
            suite.all("testcase").count().to_string()
        );
        let failed = suite
            .all("testcase")
            .filter(|c| c.all("failure").count() > 0);
        let failed = failed.count();
        assert_eq!(
            [suite.get("failures"), suite.get("errors")],
            [&failed.to_string(), "0"]
        );
        failures += failed;
        let mut names: Vec<&str> = suite.all("testcase").map(|c| c.get("name")).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
        tests += suite.all("testcase").count();
    }
    assert_eq!(root.get("tests"), tests.to_string());
    assert_eq!(root.get("failures"), failures.to_string());
    (text, document.children.into_iter().next().unwrap())
}

fn case<'a>(root: &'a Element, suite: &'a str, name: &'a str) -> &'a Element {
    let mut suites = root.all("testsuite").filter(|s| s.get("name") == suite);
    let mut cases = suites.next().expect(suite).all("testcase");
    cases.find(|c| c.get("name") == name).expect(name)
}

fn skipped(case: &Element) -> &str {
    case.all("skipped").next().map_or("", |s| s.get("message"))
}

#[test]
fn a_test_case_for_each_verdict() {
    let (run, trials) = Sample::default().build();
    let report = Report::build(&run, &trials);
    let (text, root) = written(&report);
    insta::assert_snapshot!(text);
    // Layers set against native, each at every point.
    assert_eq!(root.all("testsuite").count(), 3);
    assert_eq!(root.get("tests"), (3 * report.points().len()).to_string());
    let slow = case(&root, "fuse", "open and stat");
    assert!(
        slow.children.iter().all(|c| c.name == "system-out"),
        "slower is no failure"
    );
    let seconds: f64 = slow.get("time").parse().unwrap();
    let row = report
        .results
        .iter()
        .find(|r| r.layer == "fuse" && r.label == "open and stat");
    assert!((seconds * 1e6 - row.unwrap().op_us.unwrap()).abs() < 1e-3);
}

#[test]
fn what_has_no_verdict_is_skipped_with_its_reason() {
    let (mut run, mut trials) = Sample::default().build();
    trials.retain(|t| t.cell.block < 2);
    let (_, root) = written(&Report::build(&run, &trials));
    let why = skipped(case(&root, "fuse", "open and stat"));
    assert!(why.starts_with("too few repeats: no interval yet"), "{why}");
    let failed = run.layers.iter_mut().find(|l| l.name == "fuse").unwrap();
    failed.status = LayerStatus::Failed;
    failed.reason = Some("layer `fuse` needs /dev/fuse".into());
    failed.hint = Some("sudo modprobe fuse".into());
    let fuse = run.layers.iter().position(|l| l.name == "fuse").unwrap();
    trials.retain(|t| t.cell.layer != fuse);
    let (_, root) = written(&Report::build(&run, &trials));
    assert_eq!(
        skipped(case(&root, "fuse", "set up")),
        "layer `fuse` needs /dev/fuse; hint: sudo modprobe fuse"
    );
}

#[test]
fn what_is_beyond_a_gate_fails() {
    let (run, trials) = Sample::default().build();
    let mut report = Report::build(&run, &trials);
    let gates = [
        "fuse slower=1.5x at \"open and stat\"",
        "slower=1000000x",
        "fuse slower",
    ];
    let gates: Vec<Gate> = gates.iter().map(|g| g.parse().unwrap()).collect();
    report.check_gates(&gates).unwrap();
    report.hold_to(&gates, false);
    let (_, root) = written(&report);
    let slow = case(&root, "fuse", "open and stat");
    let why: Vec<&str> = slow.all("failure").map(|f| f.get("message")).collect();
    assert_eq!(why.len(), 2, "{why:?}");
    assert!(
        why[0].starts_with("fuse slower=1.5x at \"open and stat\": slower: "),
        "{why:?}"
    );
    assert!(why[0].ends_with("at most 1.50x is allowed"), "{why:?}");
    let failed = report.failed_gates().filter(|g| g.layer != "fuse");
    assert_eq!(failed.count(), 0, "no gate without a layer is beyond");
    // Where nothing is decided a build fails only when that is asked for.
    let few: Vec<_> = trials.into_iter().filter(|t| t.cell.block < 2).collect();
    let mut report = Report::build(&run, &few);
    report.hold_to(&gates, false);
    assert_eq!(report.failed_gates().count(), 0);
    assert!(report.gates.iter().all(|g| g.state == GateState::Undecided));
    report.hold_to(&gates, true);
    let (_, root) = written(&report);
    assert_eq!(report.failed_gates().count(), report.gates.len());
    assert_ne!(root.get("failures"), "0");
}

/// Such a point has a row without trials and stands among what was left out.
#[test]
fn a_point_that_failed_in_every_trial_is_one_case() {
    let (run, mut trials) = Sample::default().build();
    let fuse = run.layers.iter().position(|l| l.name == "fuse").unwrap();
    for record in &mut trials {
        if record.cell.layer == fuse && record.cell.point == 0 {
            record.trial = None;
            record.error = Some("no room".into());
        }
    }
    let (_, root) = written(&Report::build(&run, &trials));
    let failed = case(&root, "fuse", &run.points[0].label);
    assert_eq!(skipped(failed), "failed: no room");
}

#[test]
fn names_of_marks_stay_names() {
    const LAYER: &str = "dir:/a<b>&\"c'`d`]]>";
    let (mut run, trials) = Sample::default().build();
    let layer = run.layers.iter_mut().find(|l| l.name == "fuse").unwrap();
    layer.name = LAYER.into();
    run.points[0].label = "stat <x> & \u{1b}[31m\u{7}\u{ffff}`y` --> &amp;".into();
    let (_, root) = written(&Report::build(&run, &trials));
    let case = case(&root, LAYER, "stat <x> &   `y` --> &amp;");
    assert!(case.get("classname").ends_with(LAYER));
}
