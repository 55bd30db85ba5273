//! What a reader sees first, of every stored run.

use layermark_model::{
    LayerRun,
    witness::{SequenceCut, WitnessControl, WitnessTrial, sequence::Basis},
};
use layermark_report::{
    Report, Section, TrustState,
    page::{Document, Part},
    render::{self, Style},
};
use layermark_testkit::{
    fixtures,
    sample::{Sample, lost_sequence},
};
use serde_json::Value;

/// Terms of the method, which a reader of a first screen need not know.
const TERMS: [&str; 8] = [
    "point", "points", "cell", "cells", "block", "blocks", "trial", "trials",
];
/// Levels of a verdict on flushes, which say nothing without their legend.
const LEVELS: [&str; 4] = ["L0", "L1", "L2", "L3"];

/// Sections have the terms of their subject.
fn is_of_sections(document: &Document) -> bool {
    let sections = document.sections(&[Part::Study, Part::Answer]);
    let is_empty = match document.results() {
        Some(results) => results.is_empty(),
        None => true,
    };
    is_empty || sections.count() > 0
}

/// The terms in a text, without the names of files, errors and operations that the run itself has.
fn terms(report: &Report, text: &str) -> Vec<String> {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let errors = report.results.iter().filter_map(|r| r.error.as_deref());
    let own = report.points().into_iter().chain(errors);
    for own in own.chain(report.left_out.iter().map(|l| l.reason.as_str())) {
        let own = own.split_whitespace().collect::<Vec<_>>().join(" ");
        if !own.is_empty() {
            text = text.replace(&own, "");
        }
    }
    let words = text.split(|c: char| !c.is_alphanumeric());
    let found = words.filter(|word| TERMS.contains(&word.to_lowercase().as_str()));
    let wide = text.contains(">100").then_some("±>100%");
    found.chain(wide).map(str::to_owned).collect()
}

/// A reader looks for a warning by the name that is printed.
#[test]
fn every_check_has_a_row_in_the_book() {
    let page = include_str!("../../../../docs/src/report.md");
    let mut names = std::collections::BTreeSet::new();
    for fixture in fixtures::ALL {
        let kept = fixture.read();
        let report = Report::build(&kept.run, &kept.trials);
        names.extend(report.trust.into_iter().map(|item| item.title));
    }
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("\n| {name} | ")), "{name}");
    }
}

#[test]
fn a_first_line_of_trust_says_whether_to_believe_it() {
    let mut seen = std::collections::BTreeSet::new();
    for fixture in fixtures::ALL {
        let kept = fixture.read();
        let report = Report::build(&kept.run, &kept.trials);
        let said = Document::new(&report)
            .note(Part::Trust)
            .unwrap_or_default()
            .to_owned();
        let warned = report.trust.iter().any(|t| t.state == TrustState::Warn);
        let start = match (report.trustworthy(), warned) {
            (false, _) => "no: ",
            (true, true) => "with care, ",
            (true, false) => "yes, ",
        };
        let json = serde_json::to_value(&report).expect("JSON");
        if report.results.is_empty() && report.trustworthy() {
            assert_eq!((said.as_str(), json.get("trusted")), ("", None));
            continue;
        }
        assert!(said.starts_with(start), "{}: {said}", fixture.name);
        let word = json["trusted"]["word"].as_str().expect("a word");
        assert_eq!(start.trim_end_matches([':', ',', ' ']), word);
        let reason = json["trusted"].get("reason");
        assert_eq!(reason.is_some(), word == "no", "{json:#}");
        seen.insert(start);
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}

fn exported(report: &Report, name: &str) -> String {
    let mut out = Vec::new();
    render::for_path(name.as_ref())
        .expect("a format")
        .write(report, &mut out)
        .expect("a file");
    String::from_utf8(out).expect("text")
}

/// The line said "no" beside a green tick, and not why: the controls of power cuts are no check.
#[test]
fn wrong_controls_of_power_cuts_end_trust_everywhere() {
    let lost = lost_sequence("create a/g; fsync a", Basis::Posix);
    let of_sequences = SequenceCut {
        layer: "native".into(),
        control: Some(WitnessControl::Honest),
        sequences: 171,
        cuts: 684,
        smallest: Some(lost.clone()),
        lost: vec![lost],
        ..SequenceCut::default()
    };
    let of_writers = WitnessTrial {
        layer: "native".into(),
        writer: "append".into(),
        control: Some(WitnessControl::Honest),
        records: 500,
        cuts: 38,
        losing: 1,
        ..WitnessTrial::default()
    };
    let made = |writers: Vec<WitnessTrial>, sequences: Vec<SequenceCut>| {
        let (mut run, trials) = Sample::default().build();
        run.layers[0].facts.power_cuts = writers;
        run.layers[0].facts.sequence_cuts = sequences;
        Report::build(&run, &trials)
    };
    let sound = made(vec![], vec![]);
    assert!(sound.trustworthy() && exported(&sound, "x.html").contains("believe ok"));
    let lost = "native is known to be honest and lost";
    for (report, headline, why) in [
        (
            made(vec![of_writers], vec![]),
            "no verdict of the power cuts can be believed: ",
            format!("{lost} data"),
        ),
        (
            made(vec![], vec![of_sequences]),
            "no verdict on sequences of operations can be believed: ",
            format!("{lost} what POSIX or fsync(2) promises after a sequence of operations"),
        ),
    ] {
        assert!(!report.trustworthy());
        let said = report.headline.replace('`', "");
        assert_eq!(said, format!("{headline}{why}"));
        assert_eq!(report.unbelievable(), Some(report.headline.clone()));
        let reason = report.trusted.as_ref().and_then(|of| of.reason.as_deref());
        assert_eq!(reason.map(|r| r.replace('`', "")), Some(why.clone()));
        let start = format!("no: {why}; ");
        let note = Document::new(&report)
            .note(Part::Trust)
            .map(|n| n.replace('`', ""));
        assert!(
            note.as_ref().is_some_and(|n| n.starts_with(&start)),
            "{note:?}"
        );
        let page = exported(&report, "x.html");
        assert!(page.contains("believe warn") && !page.contains("believe ok"));
        assert!(page.contains("</a>: no: <code>native</code> is known to be honest"));
        assert!(exported(&report, "x.card.svg").contains("! trust: no: native is known"));
        assert!(printed(&report, 200).contains(&format!("Trust: {start}")));
    }
}

/// The exit code was 4, and nothing in JSON said so.
#[test]
fn wrong_controls_are_not_trusted_without_any_result() {
    let (mut run, _) = Sample::default().build();
    run.layers[0].facts.sequence_cuts = vec![SequenceCut {
        layer: "native".into(),
        control: Some(WitnessControl::Honest),
        sequences: 171,
        cuts: 684,
        lost: vec![lost_sequence("create a/g; fsync a", Basis::Posix)],
        ..SequenceCut::default()
    }];
    run.points.clear();
    let report = Report::build(&run, &[]);
    assert!(report.results.is_empty() && !report.trustworthy());
    let json: Value = serde_json::from_str(&exported(&report, "x.json")).expect("JSON");
    let trusted = &json["trusted"];
    assert_eq!(trusted["word"], "no");
    let why = trusted["reason"].as_str();
    assert!(
        why.is_some_and(|why| why.contains("is known to be honest")),
        "{trusted}"
    );
    let note = Document::new(&report).note(Part::Trust).map(str::to_owned);
    assert!(note.is_some_and(|note| note.starts_with("no: ")));
}

#[test]
fn a_first_screen_has_no_term_of_the_method() {
    let mut seen = 0;
    for fixture in fixtures::ALL {
        let kept = fixture.read();
        let report = Report::build(&kept.run, &kept.trials);
        let document = Document::new(&report);
        let mut texts = vec![
            document.headline().to_owned(),
            document.line(Part::About).into(),
        ];
        texts.extend(document.caveats().iter().cloned());
        for part in [Part::InShort, Part::Findings, Part::Advice] {
            texts.extend(
                document
                    .items(part)
                    .iter()
                    .map(|item| item.text.to_string()),
            );
        }
        texts.extend(document.note(Part::Trust).map(str::to_owned));
        texts.extend(document.left_out.iter().cloned());
        if let Some(all) = document.matrix() {
            let all = all.ratios();
            texts.push(all.legend());
            texts.extend(all.cells().map(|cell| all.text(cell)));
        }
        let mut card = Vec::new();
        let exporter = render::for_path("x.card.svg".as_ref()).expect("a format");
        exporter.write(&report, &mut card).expect("a picture");
        let card = String::from_utf8(card).expect("text");
        let drawn = card.split('<').filter_map(|tag| tag.split_once('>'));
        let drawn: Vec<&str> = drawn.map(|(_, text)| text).collect();
        texts.push(drawn.join(" ").replace("&gt;", ">"));
        if !is_of_sections(&document) {
            for width in [80, 100] {
                let style = Style {
                    width,
                    ..Style::default()
                };
                let mut short = Vec::new();
                render::print(&report, style, &mut short).expect("a summary");
                texts.push(String::from_utf8(short).expect("text"));
                seen += 1;
            }
        }
        for text in texts {
            let found = terms(&report, &text);
            assert!(found.is_empty(), "{}: {found:?} in {text}", fixture.name);
        }
    }
    assert!(seen > 30, "{seen} first screens");
}

/// Notes that have such a word for something else.
const OTHER_THINGS: [(&str, &str); 2] = [
    ("A prepared block was made", "a block of a file"),
    (
        "were right after every trial",
        "stored with a run by an earlier version",
    ),
];

/// The notes below iops, buffer sizes and drift said blocks and trials, where the sentences say repeats and measurements.
#[test]
fn notes_of_tables_and_charts_have_no_term_of_the_method() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for fixture in fixtures::ALL {
        let kept = fixture.read();
        let report = Report::build(&kept.run, &kept.trials);
        let document = Document::new(&report);
        let mut notes: Vec<String> = document.charts().into_iter().map(|c| c.hint).collect();
        for section in document.all_sections() {
            notes.push(section.about.clone());
            notes.extend(section.remarks.iter().cloned());
            notes.extend(section.tables.iter().map(|table| table.note.clone()));
        }
        notes.retain(|note| !note.is_empty());
        seen += notes.len();
        for mut note in notes {
            for (other, _) in OTHER_THINGS {
                note = note.replace(other, "");
            }
            let found = terms(&report, &note);
            if !found.is_empty() {
                wrong.push(format!("{}: {found:?} in {note}", fixture.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 60, "{seen} notes");
}

/// Most lines of a summary in a window of so many columns, with some for the tables that are longer than their room, and
/// one more for each layer beyond three.
const MOST_LINES: [(usize, usize); 2] = [(80, 62), (100, 42)];

/// Whether a run's summary is too long in a window of so many columns, and by how many lines.
fn too_long(report: &Report, name: &str) -> Vec<String> {
    let layers = report.in_short.len().min(16).saturating_sub(3);
    let lines = MOST_LINES.map(|(width, most)| {
        let lines = printed(report, width).lines().count();
        let most = most + layers;
        (lines > most).then(|| format!("{name}: {lines} lines of {most} at {width} columns"))
    });
    lines.into_iter().flatten().collect()
}

#[test]
fn a_summary_fits_its_lines_at_80_and_100_columns() {
    let mut wrong = Vec::new();
    for fixture in fixtures::ALL {
        let kept = fixture.read();
        let report = Report::build(&kept.run, &kept.trials);
        wrong.extend(too_long(&report, fixture.name));
    }
    wrong.extend(too_long(&default_run(), "a default run"));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Text on one line, without the marks of names.
fn joined(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ").replace('`', "");
    text.replace(['\u{201c}', '\u{201d}'], "\"")
}

/// `kept (L3)` was a mark without a legend.
#[test]
fn no_mark_needs_a_legend_that_is_not_there() {
    let (mut with_levels, mut conclusions) = (0, 0);
    for fixture in fixtures::ALL {
        let kept = fixture.read();
        let report = Report::build(&kept.run, &kept.trials);
        let document = Document::new(&report);
        let levels = |text: &str| -> Vec<String> {
            let words = text.split(|c: char| !c.is_alphanumeric());
            let found = words.filter(|word| LEVELS.contains(word));
            found.map(str::to_owned).collect()
        };
        for width in [80, 100] {
            let text = printed(&report, width);
            let mut found = levels(&text);
            // A table that has room is there with its legend.
            found.retain(|level| !text.contains(&format!("{level}: ")));
            assert!(found.is_empty(), "{}: {found:?} at {width}", fixture.name);
        }
        for section in document.all_sections() {
            for said in &section.conclusions {
                conclusions += 1;
                let found = levels(&said.text);
                assert!(found.is_empty(), "{}: {}", fixture.name, said.text);
            }
            for table in &section.tables {
                let cells = table.rows.iter().flatten().map(|cell| cell.text.as_str());
                let mut used: Vec<String> = cells.flat_map(levels).collect();
                used.sort_unstable();
                used.dedup();
                with_levels += used.len();
                for level in used {
                    let legend = format!("{level}: ");
                    assert!(
                        table.note.contains(&legend),
                        "{}: {}",
                        fixture.name,
                        table.note
                    );
                }
            }
        }
    }
    assert!(
        with_levels >= 2 && conclusions > 20,
        "{with_levels} {conclusions}"
    );
}

/// A terminal of 80 by 24: its first screen has the layers or the claims, and the last one the answer in a sentence,
/// what limits it, and whether to believe it.
#[test]
fn the_first_and_the_last_screen_of_a_terminal_have_the_answer() {
    const SCREEN: usize = 24;
    let (mut with_layers, mut with_claims) = (0, 0);
    let mut wrong = Vec::new();
    for fixture in fixtures::ALL {
        let kept = fixture.read();
        let report = Report::build(&kept.run, &kept.trials);
        let document = Document::new(&report);
        let text = printed(&report, 80);
        let lines: Vec<&str> = text.lines().collect();
        let name = fixture.name;
        let first = lines[..lines.len().min(SCREEN)].join("\n");
        let last = lines[lines.len().saturating_sub(SCREEN)..].join("\n");
        for (screen, which) in [(&first, "first"), (&last, "last")] {
            let found = terms(&report, screen).into_iter();
            wrong.extend(found.map(|term| format!("{name}: {term} on the {which} screen")));
        }
        let claims = document.sections(&[Part::Study]).find_map(Section::claims);
        let mut starts = Vec::new();
        let mut ends = vec![document.headline().to_owned()];
        ends.extend(document.caveats().iter().cloned());
        if let Some(claims) = claims {
            with_claims += 1;
            starts.extend(claims.claims.first().map(|(claim, _)| (*claim).to_owned()));
            // The answer of a study is at its start.
            starts.append(&mut ends);
        } else if let Some(line) = document.items(Part::InShort).first() {
            with_layers += 1;
            starts.push(line.text.to_string());
        }
        if document
            .results()
            .is_some_and(|results| !results.is_empty())
        {
            ends.extend(document.note(Part::Trust).map(str::to_owned));
        }
        let starts = starts.iter().map(|words| (words, &first));
        for (words, screen) in starts.chain(ends.iter().map(|words| (words, &last))) {
            if !joined(screen).contains(&joined(words)) {
                wrong.push(format!("{name}: not on the screen: {words}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(
        with_layers >= 16 && with_claims >= 9,
        "{with_layers} {with_claims}"
    );
}

/// The card of 14 operations.
fn quiet() -> Report {
    let kept = fixtures::fixture("quiet").read();
    Report::build(&kept.run, &kept.trials)
}

fn printed(report: &Report, width: usize) -> String {
    let style = Style {
        width,
        ..Style::default()
    };
    let mut out = Vec::new();
    render::print(report, style, &mut out).expect("a summary");
    String::from_utf8(out).expect("text")
}

/// At 80 columns 6 of 14 operations were shown, without these two, which the findings quote.
#[test]
fn applications_are_the_first_rows_at_every_width() {
    let report = quiet();
    for width in [60, 80, 100, 160] {
        let text = printed(&report, width);
        let rows: Vec<&str> = text
            .lines()
            .filter(|l| report.points().iter().any(|label| l.starts_with(*label)))
            .collect();
        assert!(
            rows[0].starts_with("git status") && rows[1].starts_with("SQLite commit"),
            "{width}: {text}"
        );
    }
}

#[test]
fn a_line_a_layer_comes_before_the_matrix_the_slowest_first() {
    let report = quiet();
    let layers: Vec<&str> = report
        .in_short
        .iter()
        .map(|line| line.layer.as_str())
        .collect();
    assert_eq!(layers, ["fuse", "overlay:upper"]);
    let fuse = &report.in_short[0].text;
    assert!(
        fuse.starts_with("`fuse`: daily work 4.0x (git status: ")
            && fuse.contains(", database 2.3x, packaged files 6.6x, fsync works"),
        "{fuse}"
    );
    let text = printed(&report, 100);
    let at = |what: &str| {
        text.find(what)
            .unwrap_or_else(|| panic!("{what} is not in {text}"))
    };
    assert!(
        at("fuse: daily work") < at("overlay:upper: daily work")
            && at("overlay:upper: daily work") < at("open and stat")
    );
}

/// Layers of a default run.
const DEFAULT: [&str; 12] = [
    "overlay:upper",
    "overlay:writecopy",
    "overlay:merged",
    "overlay:volatile",
    "bind",
    "tmpfs",
    "fuse",
    "image:squashfs",
    "image:squashfuse",
    "image:erofs",
    "loop:ext4",
    "vm:disk=virtio-blk",
];

/// A card of twelve layers: those of `quiet`, each several times.
fn default_run() -> Report {
    let kept = fixtures::fixture("quiet").read();
    let (mut run, mut trials) = (kept.run, kept.trials);
    let others: Vec<_> = run.layers.drain(1..).collect();
    let (control, own): (Vec<_>, Vec<_>) = others.into_iter().partition(|l| l.control);
    let first_control = 1 + own.len();
    for (n, name) in DEFAULT.into_iter().enumerate() {
        run.layers.push(LayerRun {
            name: name.into(),
            spec: name.parse().expect("a layer"),
            ..own[n % own.len()].clone()
        });
    }
    run.layers.extend(control);
    let measured = std::mem::take(&mut trials);
    for trial in measured {
        let layer = trial.cell.layer;
        let copies: Vec<usize> = match layer {
            0 => vec![0],
            _ if layer < first_control => (1..=DEFAULT.len())
                .filter(|n| (n - 1) % own.len() == layer - 1)
                .collect(),
            _ => vec![layer - first_control + 1 + DEFAULT.len()],
        };
        for layer in copies {
            let mut copy = trial.clone();
            copy.cell.layer = layer;
            trials.push(copy);
        }
    }
    Report::build(&run, &trials)
}

/// One of twelve had a line, and the others were counted.
#[test]
fn each_layer_of_a_default_run_has_one_line_before_the_matrix() {
    let report = default_run();
    assert_eq!(report.in_short.len(), DEFAULT.len());
    for width in [80, 100] {
        let text = printed(&report, width);
        let lines: Vec<&str> = text.lines().collect();
        for name in DEFAULT {
            let start = format!("{name}: ");
            let own = lines.iter().filter(|line| line.starts_with(&start));
            assert_eq!(own.count(), 1, "{name} at {width}: {text}");
        }
        // The longest are wrapped: in 80 columns, and in 100 those that say what is not decided.
        let blank = lines.iter().position(|line| line.is_empty());
        let most = if width < 100 { 22 } else { 18 };
        assert!(blank <= Some(most), "{width}: {text}");
    }
    let page = exported(&report, "x.html");
    assert!(!page.contains("more layer"), "a layer has no line");
    let card = exported(&report, "x.card.svg");
    for name in DEFAULT {
        assert!(card.contains(&format!(">{name}: ")), "{name}");
    }
}

/// `overlay:volatile` 120x faster was the bluest of all.
#[test]
fn a_time_without_a_flush_is_marked_and_hatched() {
    let kept = fixtures::fixture("flush-cost").read();
    let report = Report::build(&kept.run, &kept.trials);
    let document = Document::new(&report);
    let all = document.matrix().expect("a matrix").ratios();
    let hatched: Vec<String> = all
        .cells()
        .filter(|c| c.is_hatched())
        .map(|c| all.text(c))
        .collect();
    assert!(
        hatched.iter().any(|text| text.contains("faster")),
        "{hatched:?}"
    );
    assert!(
        hatched.iter().all(|text| text.starts_with('#')),
        "{hatched:?}"
    );
    assert!(
        all.legend()
            .contains("; # fsync does not wait for the disk")
    );
    let line = report
        .in_short
        .iter()
        .find(|l| l.layer == "overlay:volatile");
    let line = &line.expect("a line").text;
    assert!(
        line.starts_with("`overlay:volatile`: ! skips fsync; "),
        "{line}"
    );
    let page = exported(&report, "x.html");
    assert_eq!(page.matches(" hatched\"").count(), hatched.len());
}

#[test]
fn one_result_needs_no_line() {
    let kept = fixtures::fixture("gate-held").read();
    assert!(Report::build(&kept.run, &kept.trials).in_short.is_empty());
}
