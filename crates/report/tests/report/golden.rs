//! What each format looks like, for a made-up run with fixed figures.
//! After a wanted change: `INSTA_UPDATE=always cargo test -p layermark-report --test report golden`.

use layermark_report::{
    Report,
    exporters::{self, Style},
    sample::{
        self, Sample,
        matrix::{Matrix, doubling},
    },
};
use std::{fmt::Write, path::Path};

fn report() -> Report {
    let (run, trials) = Sample::default().build();
    Report::build(&run, &trials)
}

fn written(report: &Report, name: &str) -> String {
    let mut out = Vec::new();
    exporters::for_path(Path::new(name))
        .unwrap()
        .write(report, &mut out)
        .unwrap();
    String::from_utf8(out).unwrap()
}

/// Long numbers cut to nine digits: the last ones depend on the machine's mathematics library.
fn rounded(text: &str) -> String {
    let part = |c: char| c.is_ascii_digit() || c == '.';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        let number = &tail[..tail.find(|c| !part(c)).unwrap_or(tail.len())];
        match number.parse::<f64>() {
            Ok(value) if number.contains('.') && number.len() > 10 => {
                let digits = (9 - value.abs().log10().ceil() as i32).clamp(0, 15) as usize;
                write!(out, "{value:.digits$}").unwrap();
            }
            _ => out.push_str(number),
        }
        rest = &tail[number.len()..];
    }
    out + rest
}

#[test]
fn json() {
    let mut report = report();
    // One point in every layer shows every field; the rest would be more of the same.
    report.results.truncate(4);
    report.trials.truncate(2);
    report.control.as_mut().unwrap().results.truncate(1);
    insta::assert_snapshot!(rounded(&written(&report, "x.json")));
}

fn printed(report: &Report, width: usize) -> String {
    let style = Style {
        width,
        colour: false,
    };
    let mut out = Vec::new();
    exporters::print(report, style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn terminal_summary() {
    insta::assert_snapshot!(printed(&report(), 100));
}

#[test]
fn a_summary_has_at_most_40_lines_and_keeps_to_the_window() {
    let all = sample::card();
    let compared = all.layers.iter().filter(|l| !l.baseline && !l.control);
    assert!(compared.count() >= 11 && all.points().len() >= 12);
    for (width, most) in [(100, 39), (140, 39), (60, 60)] {
        let text = printed(&all, width);
        assert!(text.lines().count() <= most, "{width}: {text}");
        let longest = text.lines().map(|l| l.chars().count()).max();
        assert!(longest <= Some(width), "{width}: {longest:?}");
        assert!(text.contains("--full"), "{text}");
        // The headline and what is gravest are there however little room there is.
        for sentence in all.findings.iter().take(2) {
            let start: String = sentence.text.replace('`', "").chars().take(30).collect();
            assert!(text.contains(&start), "{start}: {text}");
        }
    }
    assert!(all.findings.len() <= 5);
    let of_results = |id: &String| all.results.iter().any(|r| r.id == *id);
    for finding in &all.findings {
        assert!(!finding.evidence.is_empty() && finding.evidence.iter().all(of_results));
    }
}

#[test]
fn terminal() {
    insta::assert_snapshot!(written(&report(), "x.txt"));
}

#[test]
fn terminal_narrow_and_coloured() {
    let mut out = Vec::new();
    exporters::print_full(
        &report(),
        Style {
            width: 60,
            colour: true,
        },
        &mut out,
    )
    .unwrap();
    let text = String::from_utf8(out).unwrap();
    let plain = |line: &str| {
        line.replace("\x1b[0m", "")
            .split('\x1b')
            .map(|p| {
                p.strip_prefix('[')
                    .and_then(|p| p.split_once('m'))
                    .map_or(p, |(_, t)| t)
            })
            .collect::<String>()
    };
    for line in text.lines() {
        assert!(plain(line).chars().count() <= 60, "{line:?}");
    }
    assert!(
        text.contains("\x1b[33mslower"),
        "verdict words have a colour"
    );
    insta::assert_snapshot!(text.replace('\x1b', "^["));
}

#[test]
fn markdown() {
    insta::assert_snapshot!(written(&report(), "x.md"));
}

#[test]
fn markdown_full() {
    insta::assert_snapshot!(written(&report(), "x.full.md"));
}

#[test]
fn markdown_fits_a_pull_request() {
    let mut card = sample::card();
    card.left_out.truncate(1);
    let text = written(&card, "x.md");
    assert!(text.lines().count() <= 60, "{text}");
    assert!(text.contains("left out: image:erofs"), "{text}");
    let rows = text.lines().filter(|l| l.starts_with("| "));
    assert_eq!(rows.count(), 2 + 12, "head, rule and operations: {text}");
    for finding in &card.findings {
        let start: String = finding.text.chars().skip(6).take(20).collect();
        assert!(
            text.contains(&start.replace('`', "")) || text.contains(&start),
            "{start}"
        );
    }
    assert!(text.contains("-o report.full.md"));
    assert!(written(&card, "x.full.md").lines().count() > 100);
    let (run, trials) = Matrix {
        files: doubling(64 << 10, 16 << 20),
        blocks: 3,
        ..Matrix::default()
    }
    .build();
    let many = Report::build(&run, &trials);
    assert!(many.points().len() > 60);
    let text = written(&many, "x.md");
    assert!(text.lines().count() <= 60, "{text}");
    assert!(text.contains("with smaller differences"), "{text}");
    let (run, trials) = sample::launches(&[400.0, 410.0, 405.0]);
    let text = written(&Report::build(&run, &trials), "x.md");
    assert!(
        text.contains("| app, window=Login | native | 1-3 |"),
        "{text}"
    );
}

#[test]
fn csv() {
    insta::assert_snapshot!(rounded(&written(&report(), "x.csv")));
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    for name in ["x.html", "x.json", "x.csv", "x.md", "x.txt"] {
        assert_eq!(written(&report(), name), written(&report(), name), "{name}");
    }
}
