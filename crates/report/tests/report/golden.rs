//! What each format looks like, for a made-up run with fixed figures.
//! After a wanted change: `INSTA_UPDATE=always cargo test -p layermark-report --test report golden`.

use layermark_report::{
    Conclusion, Report,
    render::{self, Style},
};
use layermark_testkit::sample::{
    self, Sample,
    matrix::{Matrix, doubling},
};
use std::{fmt::Write, path::Path};
use unicode_width::UnicodeWidthStr;

use crate::{appvirt, cost, iozone_vm, launch_share};

fn report() -> Report {
    let (run, trials) = Sample::default().build();
    Report::build(&run, &trials)
}

fn written(report: &Report, name: &str) -> String {
    let mut out = Vec::new();
    render::for_path(Path::new(name))
        .unwrap()
        .write(report, &mut out)
        .unwrap();
    String::from_utf8(out).unwrap()
}

/// Long numbers cut to nine digits: the last ones depend on the machine's mathematics library.
pub fn rounded(text: &str) -> String {
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
        ..Style::default()
    };
    let mut out = Vec::new();
    render::print(report, style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn terminal_summary() {
    insta::assert_snapshot!(printed(&report(), 100));
}

#[test]
fn a_summary_has_about_40_lines_and_keeps_to_the_window() {
    let all = sample::card();
    let compared = all.layers.iter().filter(|l| !l.baseline && !l.control);
    assert!(compared.count() >= 11 && all.points().len() >= 12);
    let more = all.in_short.len().min(16).saturating_sub(3);
    for (width, most) in [(100, 39), (140, 39), (60, 60)] {
        let text = printed(&all, width);
        assert!(text.lines().count() <= most + more, "{width}: {text}");
        let longest = text.lines().map(|l| l.chars().count()).max();
        assert!(longest <= Some(width), "{width}: {longest:?}");
        assert!(text.contains("--full"), "{text}");
        // Every layer is explained, or a command that does is named.
        let words: Vec<&str> = text.split_whitespace().collect();
        let last = format!(
            "(made-up layer {}, in words of usual length)",
            all.layers.len() - 1
        );
        let explained = words.join(" ").contains(&last);
        assert!(
            explained || words.join(" ").contains("; all: layermark layers"),
            "{text}"
        );
        // Those with the gravest findings first.
        let gravest = all.findings.iter().find(|f| !f.layer.is_empty()).unwrap();
        let about = format!("{} (made-up layer", gravest.layer);
        assert!(words.join(" ").contains(&about), "{about}: {text}");
        assert!(explained || width < 140, "{width}: {text}");
        // What has no room is counted.
        let told = all.findings.iter().filter(|f| {
            let start: String = f.text.replace('`', "").chars().take(20).collect();
            text.contains(&format!("\n  {start}"))
        });
        let left = all.findings.len() - told.count();
        assert!(
            left == 0 || text.contains(&format!("and {left} more finding")),
            "{left}: {text}"
        );
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
fn wide_letters_take_the_room_that_they_have_on_a_terminal() {
    let (mut run, trials) = Sample::default().build();
    for layer in run.layers.iter_mut().filter(|l| !l.control).skip(1) {
        layer.name = format!("dir:/srv/データベースの場所/{}", layer.name);
    }
    let text = printed(&Report::build(&run, &trials), 100);
    for line in text.lines() {
        assert!(line.width() <= 100, "{} columns: {line}", line.width());
    }
    // By letters alone all three would stand side by side.
    let rows: Vec<usize> = text
        .lines()
        .filter(|l| l.starts_with("open and stat "))
        .map(UnicodeWidthStr::width)
        .collect();
    assert_eq!(rows.len(), 2, "groups of layers: {text}");
    let names = text.lines().filter(|l| l.trim_start().starts_with("/srv/"));
    let names: Vec<usize> = names.map(UnicodeWidthStr::width).collect();
    assert_eq!(names, rows, "right edges: {text}");
}

#[test]
fn terminal() {
    insta::assert_snapshot!(written(&report(), "x.txt"));
}

#[test]
fn terminal_narrow_and_coloured() {
    let mut out = Vec::new();
    render::print_full(
        &report(),
        Style {
            width: 60,
            colour: true,
            ..Style::default()
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
    assert!(text.contains("loop:ext4 (made-up layer"), "{text}");
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
    assert!(text.contains(" more operations."), "{text}");
    let (run, trials) = sample::launches(&[400.0, 410.0, 405.0]);
    let text = written(&Report::build(&run, &trials), "x.md");
    assert!(
        text.contains("| app, window=Login | `native` | 1-3 |"),
        "{text}"
    );
}

/// The `|` of a line of a table that end cells: the others are escaped.
fn cell_ends(line: &str) -> usize {
    let mut chars = line.chars();
    let mut ends = 0;
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '|' => ends += 1,
            _ => {}
        }
    }
    ends
}

#[test]
fn a_name_of_marks_stays_one_name() {
    const NAME: &str = "dir:/srv/a`b|c";
    let (mut run, trials) = Sample {
        layers: vec!["fuse"],
        ..Sample::default()
    }
    .build();
    let fuse = run.layers.iter_mut().find(|l| l.name == "fuse");
    fuse.expect("it was asked for").name = NAME.into();
    run.points[0].label = "stat `x|y`".into();
    let report = Report::build(&run, &trials);
    let text = written(&report, "x.md");
    let headline = text.lines().find(|l| l.starts_with("# ")).unwrap();
    let code = format!("# `` {NAME} `` takes ");
    assert!(headline.starts_with(&code), "{headline}");
    for text in [text, written(&report, "x.full.md")] {
        assert!(text.contains(r"dir:/srv/a\`b\|c"), "in a table: {text}");
        let mut head = None;
        for line in text.lines() {
            if line.starts_with("| ") {
                let ends = *head.get_or_insert(cell_ends(line));
                assert_eq!(cell_ends(line), ends, "{line}");
            } else {
                head = None;
            }
        }
    }
    let page = written(&report, "x.html");
    assert!(page.contains(&format!("<code>{NAME}</code> takes ")));
    assert!(printed(&report, 100).contains(&format!("{NAME} takes ")));
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

/// How each conclusion of a study stands, with the results it rests on.
fn conclusions(report: &Report) -> String {
    let study = report.study.as_ref().expect("a study");
    let line = |c: &Conclusion| {
        format!(
            "{} | {} | {} | {} | {}\n",
            c.holds.words(),
            c.claim,
            c.layer,
            c.text,
            c.evidence.join(" ")
        )
    };
    assert!(!study.conclusions.is_empty());
    study.conclusions.iter().map(line).collect()
}

#[test]
fn studies_conclude_the_same() {
    insta::assert_snapshot!("study_fileio_appvirt", conclusions(&appvirt::report()));
    insta::assert_snapshot!("study_iozone_vm", conclusions(&iozone_vm::report()));
    insta::assert_snapshot!("study_launch_share", conclusions(&launch_share::report(10)));
    insta::assert_snapshot!("study_buffer_size", conclusions(&cost::buffer_size()));
}
