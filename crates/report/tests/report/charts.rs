//! Charts as files of their own: real colours, a title, a legend; pictures of twice the size.

use std::{io::Write, path::Path};

use layermark_report::{
    Report,
    render::{self, Files},
};
use layermark_testkit::sample::{Sample, full, matrix::Matrix};

#[derive(Default)]
struct Parts(Vec<(String, Vec<u8>)>);

impl Files for Parts {
    fn open(&mut self, part: &str) -> anyhow::Result<&mut dyn Write> {
        self.0.push((part.into(), Vec::new()));
        Ok(&mut self.0.last_mut().unwrap().1)
    }
}

fn charts(report: &Report, name: &str) -> Vec<(String, Vec<u8>)> {
    let mut parts = Parts::default();
    render::for_path(Path::new(name))
        .unwrap()
        .write(report, &mut parts)
        .unwrap();
    parts.0
}

fn sample(shape: &Sample) -> Report {
    let (run, trials) = shape.build();
    Report::build(&run, &trials)
}

/// With a change in the middle of the run, in `fuse` alone.
fn drifting(shape: &Sample) -> Report {
    let shape = Sample {
        blocks: 24,
        ..shape.clone()
    };
    let (run, mut trials) = shape.build();
    let at = run.layers.iter().position(|l| l.name == "fuse").unwrap();
    let late = trials
        .iter_mut()
        .filter(|t| t.cell.layer == at && t.cell.block >= 12);
    for t in late {
        for pass in &mut t.trial.as_mut().unwrap().passes {
            pass.elapsed_ns *= 2;
        }
    }
    Report::build(&run, &trials)
}

/// The drawing of this name.
fn drawing(report: &Report, name: &str) -> String {
    let charts = charts(report, "c.svg");
    let found = charts.iter().find(|(n, _)| n == name);
    let found = found.unwrap_or_else(|| panic!("{name}: {:?}", names(&charts)));
    String::from_utf8(found.1.clone()).unwrap()
}

/// One ratio of 854 made the difference between 1.00 and 1.26 invisible.
#[test]
fn an_axis_is_cut_and_what_lies_beyond_is_an_arrow_with_its_number() {
    let report = sample(&Sample::default());
    let svg = drawing(
        &report,
        "forest-first-write-to-a-packaged-file-cost-against-native",
    );
    for layer in ["overlay:upper", "overlay:volatile", "fuse"] {
        assert!(svg.contains(&format!(">{layer}</text>")), "{layer}: {svg}");
        let row = report
            .results
            .iter()
            .find(|r| r.layer == layer && r.label == "first write to a packaged file");
        let ratio = row.and_then(|r| r.ratio).unwrap();
        let arrow = format!(">{:.0}x \u{2192}</text>", ratio.estimate);
        assert_eq!(
            svg.contains(&arrow),
            ratio.estimate > 10.0,
            "{arrow}: {svg}"
        );
    }
    let svg = drawing(
        &report,
        "forest-random-write-fsync-each-cost-against-native",
    );
    assert!(svg.contains(">\u{2190} 30x faster</text>"), "{svg}");
}

/// A title of 400 units was written over the edge.
#[test]
fn a_long_title_has_as_many_lines_as_it_needs() {
    let (mut run, trials) = Sample::default().build();
    let label = "a first write to a packaged file of a program that has a very long name indeed";
    run.points[0].label = label.into();
    let report = Report::build(&run, &trials);
    let charts = charts(&report, "c.svg");
    let (_, svg) = charts
        .iter()
        .find(|(n, _)| n.starts_with("forest-a-first-write"))
        .unwrap();
    let svg = String::from_utf8_lossy(svg);
    let bold = svg
        .split("<text")
        .skip(1)
        .filter(|t| t.contains("font-weight=\"bold\""));
    let lines: Vec<&str> = bold
        .map(|t| {
            t.split_once('>')
                .unwrap()
                .1
                .split_once("</text>")
                .unwrap()
                .0
        })
        .collect();
    assert_eq!(lines.join(" "), format!("{label}: cost against native"));
    assert!(
        lines.len() > 1 && lines.iter().all(|l| l.chars().count() <= 44),
        "{lines:?}"
    );
}

#[test]
fn only_what_drifts_has_a_chart_of_its_drift() {
    let shown = |report: &Report| {
        let charts = charts(report, "c.svg");
        let names = names(&charts)
            .into_iter()
            .filter(|n| n.starts_with("drift-"));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let quiet = shown(&sample(&full()));
    assert!(quiet.is_empty(), "{quiet:?}");
    assert_eq!(
        shown(&drifting(&full())),
        ["drift-fuse-throughput-during-the-run"]
    );
}

fn names(charts: &[(String, Vec<u8>)]) -> Vec<&str> {
    charts.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn every_chart_is_a_drawing_of_its_own() {
    let report = drifting(&full());
    let charts = charts(&report, "charts.svg");
    assert!(charts.len() >= 13, "{:?}", names(&charts));
    for wanted in [
        "forest-open-and-stat-cost-against-native",
        "latency-open-and-stat-latency",
        "drift-fuse-throughput-during-the-run",
    ] {
        assert!(names(&charts).contains(&wanted), "{:?}", names(&charts));
    }
    for (name, bytes) in &charts {
        let text = std::str::from_utf8(bytes).unwrap();
        assert!(
            text.starts_with("<?xml") && text.trim_end().ends_with("</svg>"),
            "{name}"
        );
        assert!(
            text.contains("xmlns=\"http://www.w3.org/2000/svg\""),
            "{name}"
        );
        assert!(!text.contains("var(--"), "{name}: colours are real");
        assert!(text.contains("fill=\"#ffffff\""), "{name}: on white");
        assert_eq!(text.matches("<title ").count(), 1, "{name}");
        assert!(!text.contains("NaN"), "{name}");
        let well_formed = text.matches("<g").count() == text.matches("</g>").count();
        assert!(well_formed, "{name}");
    }
    let drift = charts
        .iter()
        .find(|(n, _)| n.starts_with("drift-fuse"))
        .unwrap();
    let text = std::str::from_utf8(&drift.1).unwrap();
    assert!(
        text.contains(">fuse: throughput during the run</text>"),
        "a title to be seen"
    );
    assert!(
        text.contains(">fuse</text>") && text.contains(">native</text>"),
        "a legend"
    );
    assert!(
        text.contains("seconds since the run began"),
        "axes are named"
    );
}

#[test]
fn pictures_are_twice_as_large_and_not_empty() {
    let report = sample(&Sample {
        layers: vec!["fuse"],
        points: vec!["open and stat", "read 4K", "read 64K"],
        ..Sample::default()
    });
    let pictures = charts(&report, "charts.png");
    let drawings = charts(&report, "charts.svg");
    assert_eq!(names(&pictures), names(&drawings));
    for ((name, png), (_, svg)) in pictures.iter().zip(&drawings) {
        assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n", "{name}");
        let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        let svg = std::str::from_utf8(svg).unwrap();
        let (_, tail) = svg.split_once("viewBox=\"0 0 ").unwrap();
        let units: Vec<f64> = tail
            .split_once('"')
            .unwrap()
            .0
            .split(' ')
            .map(|n| n.parse().unwrap())
            .collect();
        assert!(
            (f64::from(side(16)) - 2.0 * units[0]).abs() <= 2.0,
            "{name}"
        );
        assert!(
            (f64::from(side(20)) - 2.0 * units[1]).abs() <= 2.0,
            "{name}"
        );
        assert!(png.len() > 5_000, "{name}: {} bytes", png.len());
    }
}

#[test]
fn one_chart_is_the_file_that_was_named_and_none_is_said() {
    let one = Sample {
        layers: Vec::new(),
        control: false,
        ..Sample::default()
    };
    let few = Sample {
        points: vec!["large write"],
        ..one.clone()
    };
    assert_eq!(names(&charts(&sample(&few), "c.svg")), [""]);
    let none = Sample { blocks: 0, ..one };
    for name in ["c.svg", "c.charts.png"] {
        let made = charts(&sample(&none), name);
        assert_eq!(names(&made), [""]);
        assert!(!made[0].1.is_empty());
    }
    let made = charts(&sample(&none), "c.svg");
    assert!(String::from_utf8_lossy(&made[0].1).contains("Nothing to draw"));
}

#[test]
fn a_matrix_has_a_surface_for_each_test_and_layer() {
    let (run, trials) = Matrix::default().build();
    let report = Report::build(&run, &trials);
    let charts = charts(&report, "c.svg");
    let surfaces: Vec<_> = charts
        .iter()
        .filter(|(n, _)| n.starts_with("surface-"))
        .collect();
    assert_eq!(surfaces.len(), 4 * 3, "{:?}", names(&charts));
    for (name, bytes) in surfaces {
        let text = String::from_utf8_lossy(bytes);
        assert!(
            text.contains("throughput, GB/s") && text.contains("record, log2 bytes"),
            "{name}"
        );
        assert!(text.matches("<path").count() >= 2, "{name}: faces");
    }
}

#[test]
fn names_in_charts_stay_text() {
    let (mut run, trials) = Sample::default().build();
    run.layers[1].name = "<script>\"'&/../..".into();
    let charts = charts(&Report::build(&run, &trials), "c.svg");
    for (name, bytes) in charts {
        assert!(!name.contains(['/', '<', '"']), "{name}");
        assert!(
            !String::from_utf8_lossy(&bytes).contains("<script"),
            "{name}"
        );
    }
}

/// Each command had a chart of its own, with ticks such as 13.7.
#[test]
fn commands_in_one_layer_are_on_one_axis_with_round_ticks() {
    let (mut run, mut trials) = layermark_testkit::sample::launches(&[120.0; 8]);
    let mut other = run.points[0].clone();
    other.label = "another".into();
    run.points.push(other);
    let (_, more) = layermark_testkit::sample::launches(&[437.0; 8]);
    trials.extend(more.into_iter().map(|mut t| {
        (t.seq, t.cell.point) = (t.seq + 8, 1);
        t
    }));
    let report = Report::build(&run, &trials);
    let all = charts(&report, "x.charts.svg");
    let drawn: Vec<String> = all
        .into_iter()
        .filter(|(part, _)| part.starts_with("launch-"))
        .map(|(_, svg)| String::from_utf8(svg).unwrap())
        .collect();
    assert_eq!(drawn.len(), 2, "every run, and how they are spread");
    let texts = |svg: &str| -> Vec<String> {
        let tags = svg.split("<text").skip(1);
        let texts = tags.filter_map(|t| Some(t.split_once('>')?.1.split_once('<')?.0.to_owned()));
        texts.map(|t| t.trim().to_owned()).collect()
    };
    let found = texts(&drawn[0]);
    for wanted in ["100", "500", "2", "8", "app, window=Login", "another"] {
        assert!(found.iter().any(|t| t == wanted), "{wanted}: {found:?}");
    }
    // No tick stands between two runs, or has a fraction.
    assert!(!found.iter().any(|t| t.contains('.')), "{found:?}");
}
