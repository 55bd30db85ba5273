//! Formats for readers draw the page: they see no row of the report, and read no meaning out of text. Formats for programs
//! are made from the report's data.

use std::{fs, path::Path};

/// Formats for programs, each with what it is made of.
const DATA: [(&str, &str); 9] = [
    ("bencher.rs", "points"),
    ("csv.rs", "long tables"),
    ("github_benchmark.rs", "points"),
    ("hyperfine.rs", "benchmarks"),
    ("iozone.rs", "size tables"),
    ("json.rs", "the report itself"),
    ("junit.rs", "suites of test cases"),
    ("openmetrics.rs", "points"),
    ("mod.rs", "the list: it makes the page of a report"),
];

/// Words that name the report or its rows.
const ROWS: [&str; 5] = ["Report", "report", "ResultRow", "LaunchSeries", "SizeTable"];

/// What a format for programs may ask a report itself: how it is named, and whether it is believed.
const ASKED: [&str; 5] = ["generated_by", "label", "run", "started", "trustworthy"];

/// A path into the modules that compute rows. A layer's facts are drawn as they are.
const COMPUTED: &str = "facts::";

/// How text is looked into.
const LOOKS: [&str; 12] = [
    ".contains(",
    ".split(",
    ".split_once(",
    ".split_inclusive(",
    ".find(",
    ".rfind(",
    ".starts_with(",
    ".ends_with(",
    ".strip_prefix(",
    ".strip_suffix(",
    ".trim_start_matches(",
    ".trim_end_matches(",
];

/// Lines that look into text, or whose method has the same name, each with its reason.
const ALLOWED: [(&str, &str, &str); 17] = [
    (
        "card.rs",
        "drawn.split_once('>')",
        "the SVG element that kuva begins",
    ),
    (
        "card.rs",
        "sizes.into_iter().find(fits)",
        "a size of letters",
    ),
    (
        "csv.rs",
        "text.trim_start_matches(unseen)",
        "a spreadsheet would run it",
    ),
    ("csv.rs", "starts_with(SIGNS)", "a spreadsheet would run it"),
    (
        "html/table.rs",
        "NUMBERS.contains(&n)",
        "numbers of columns",
    ),
    ("html/text.rs", "rest.find(\" us\")", "the letter \u{b5}"),
    ("html/text.rs", "head.ends_with(", "the letter \u{b5}"),
    (
        "html/text.rs",
        "tail[3..].starts_with(",
        "the letter \u{b5}",
    ),
    ("markdown/brief.rs", "texts.find(", "what fits"),
    ("markdown/text.rs", "name.contains('|')", "ends a cell"),
    ("mod.rs", "", "names of files"),
    ("svg.rs", "svg.split_once('\\n')", "the first line of XML"),
    ("terminal/columns.rs", "text.char_indices().find(", "width"),
    ("terminal/growing.rs", "texts.find(fits)", "what fits"),
    ("terminal/summary.rs", ".find(|", "what fits"),
    (
        "terminal/summary.rs",
        "name.split_inclusive(",
        "where a name may be broken",
    ),
    ("xlsx/names.rs", "", "what names of sheets may not have"),
];

/// A line of the product's code and its file.
struct Line {
    file: String,
    text: String,
}

/// Lines of all renderers, without comments and inline tests.
fn lines() -> Vec<Line> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/render");
    let mut lines = Vec::new();
    collect(&folder, &folder, &mut lines);
    lines
}

fn collect(top: &Path, folder: &Path, lines: &mut Vec<Line>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(top, &path, lines);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let file = path.strip_prefix(top).expect("below");
            let text = fs::read_to_string(&path).expect("text");
            let product = text.lines().take_while(|l| *l != "#[cfg(test)]");
            let code = product.map(str::trim).filter(|l| !l.starts_with("//"));
            lines.extend(code.map(|text| Line {
                file: file.display().to_string(),
                text: text.to_owned(),
            }));
        }
    }
}

/// Whether code has this word.
fn has_word(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let of = |(at, _): (usize, &str)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    };
    code.match_indices(word).any(of)
}

/// The code of a line without what it says: literals of text.
fn code(line: &str) -> String {
    line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

fn is_data(file: &str) -> bool {
    DATA.iter().any(|(of, _)| *of == file)
}

fn is_allowed(line: &Line) -> bool {
    let mut all = ALLOWED.iter();
    all.any(|(file, part, _)| line.file == *file && line.text.contains(part))
}

fn looks(line: &Line) -> bool {
    LOOKS.iter().any(|way| line.text.contains(way))
}

#[test]
fn no_format_for_readers_sees_a_row_of_the_report() {
    let all = lines();
    assert!(all.len() > 2_000, "{} lines were read", all.len());
    let found = all.iter().filter(|line| {
        let code = code(&line.text);
        let names = |word: &&str| has_word(&code, word);
        !is_data(&line.file) && (ROWS.iter().any(names) || code.contains(COMPUTED))
    });
    let found: Vec<String> = found.map(|l| format!("{}: {}", l.file, l.text)).collect();
    assert!(
        found.is_empty(),
        "the page has what a format draws (crates/report/src/page): ask that, not\n{}",
        found.join("\n")
    );
}

#[test]
fn formats_for_programs_are_made_of_tables() {
    let all = lines();
    let asks = |text: &str| -> Vec<String> {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let of = |(at, word): (usize, &str)| {
            let is_own = !text[..at].ends_with(is_part);
            let rest = &text[at + word.len()..];
            let name = &rest[..rest.find(|c: char| !is_part(c)).unwrap_or(rest.len())];
            is_own.then(|| name.to_owned())
        };
        text.match_indices("report.").filter_map(of).collect()
    };
    let asked = |name: &String| ASKED.contains(&name.as_str());
    assert_eq!(
        asks("&report.results, my_report.x, report.gates()"),
        ["results", "gates"]
    );
    let mut used = Vec::new();
    for (file, made_of) in DATA {
        let own: Vec<String> = all
            .iter()
            .filter(|line| line.file == file)
            .map(|line| code(&line.text))
            .collect();
        assert!(!own.is_empty(), "{file} is gone");
        // A call may be on the next line.
        let names = asks(&own.concat());
        let bad: Vec<&String> = names.iter().filter(|name| !asked(name)).collect();
        assert_eq!(bad, [""; 0], "{file} is made of {made_of}");
        used.extend(names);
    }
    for name in ASKED {
        assert!(
            used.iter().any(|of| of == name),
            "no format asks for {name}"
        );
    }
}

/// Only the meaning of workloads may tell them apart.
#[test]
fn no_format_names_a_workload() {
    // The head of a column.
    const HEADING: &str = "{ \"file\" } @for";
    let names = |line: &&Line| {
        let ids = layermark_probe::workloads::ALL.iter().map(|w| w.id());
        let text = line.text.replace(HEADING, "");
        ids.map(|id| format!("\"{id}\""))
            .any(|id| text.contains(&id))
    };
    let all = lines();
    let found: Vec<String> = all
        .iter()
        .filter(names)
        .map(|l| format!("{}: {}", l.file, l.text))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_format_reads_meaning_out_of_text() {
    let all = lines();
    let found = all.iter().filter(|line| looks(line) && !is_allowed(line));
    let found: Vec<String> = found.map(|l| format!("{}: {}", l.file, l.text)).collect();
    assert!(
        found.is_empty(),
        "what a text means is data beside it, such as the signs of a cell; if this is no meaning, say so in ALLOWED:\n{}",
        found.join("\n")
    );
    for (file, part, why) in ALLOWED {
        let used = |l: &Line| l.file == file && l.text.contains(part) && looks(l);
        assert!(
            all.iter().any(used),
            "nothing in {file} is allowed for {why}: {part}"
        );
    }
}

#[test]
fn a_row_and_a_look_are_found() {
    let line = |text: &str| Line {
        file: "card.rs".into(),
        text: text.into(),
    };
    assert!(has_word("fn draw(report: &Report)", "Report"));
    assert!(!has_word("fn card(layer: &LayerReport)", "Report"));
    assert!(!has_word(&code("say(\"the report\", 1)"), "report"));
    assert!(looks(&line("if shown.contains(\"x faster\") {")));
    assert!(!is_allowed(&line("if shown.contains(\"x faster\") {")));
    assert!(!looks(&line("cell.signs.has(Sign::Faster)")));
}
