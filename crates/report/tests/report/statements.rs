//! What is said is decided in `statements/`, which writes no text, and worded in `words/`, whose texts nobody searches.

use std::{fs, path::Path};

/// The product's code of a file, without comments and inline tests.
fn product(source: &str) -> Vec<String> {
    let lines = source.lines().take_while(|l| *l != "#[cfg(test)]");
    let lines = lines.map(str::trim).filter(|l| !l.starts_with("//"));
    lines.map(str::to_owned).collect()
}

/// String literals of a line.
fn literals(line: &str) -> Vec<&str> {
    line.split('"').skip(1).step_by(2).collect()
}

/// A literal with a blank between two letters, or what makes a text.
fn writes_text(line: &str) -> bool {
    let makes = [
        "format!",
        "text!",
        "to_string()",
        "String::from",
        "write!",
        "concat!",
    ];
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    let is_sentence = |text: &&str| {
        let mut blanks = text.match_indices(' ');
        blanks.any(|(at, _)| {
            is_letter(text[..at].chars().next_back()) && is_letter(text[at + 1..].chars().next())
        })
    };
    makes.iter().any(|way| line.contains(way)) || literals(line).iter().any(is_sentence)
}

/// All files of a folder and of those below it, without tests.
fn files(folder: &str) -> Vec<(String, Vec<String>)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut all) = (vec![src.join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.ends_with("tests") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("tests.rs") {
                let source = fs::read_to_string(&path).unwrap();
                let name = path.strip_prefix(&src).unwrap().display().to_string();
                all.push((name, product(&source)));
            }
        }
    }
    all
}

#[test]
fn statements_write_no_text() {
    assert!(writes_text(r#"let x = "is slower";"#) && writes_text("format!(x)"));
    assert!(!writes_text(r#"x.starts_with("git "), ("a", b)"#));
    let all = files("statements");
    assert!(all.len() > 5, "{}", all.len());
    for (file, lines) in all {
        let bad: Vec<&String> = lines.iter().filter(|l| writes_text(l)).collect();
        assert!(bad.is_empty(), "{file}: {bad:#?}");
    }
}

/// What makes a text.
const MAKES: [&str; 6] = [
    "format!", "text!", "write!", "writeln!", "concat!", "push_str",
];

/// Code outside `words/` and `render/` that makes a text which is no sentence, or has one, each with what it is.
const NO_SENTENCES: [(&str, &str, &str); 9] = [
    (
        "build.rs",
        "CARGO_PKG_VERSION",
        "the program's name and version",
    ),
    ("build.rs", "{t:.0}", "a timestamp"),
    ("build.rs", "as TOML", "a comment in place of a plan"),
    ("page/charts/mod.rs", "var(--c", "a colour of CSS"),
    ("page/charts/paper.rs", "", "attributes of SVG"),
    ("page/charts/svg.rs", "", "elements of SVG, and their ids"),
    ("page/charts/surface.rs", "DrawingId", "an id of SVG"),
    (
        "page/sign.rs",
        "",
        "the table of signs, each with its meaning",
    ),
    ("types/mod.rs", "{kind}{n}", "an id of the JSON"),
];

/// Fields of the JSON that hold sentences.
const SENTENCES: [&str; 33] = [
    "about",
    "advice",
    "answer",
    "because",
    "brief",
    "caveats",
    "configured",
    "differences",
    "fidelity",
    "first_apart",
    "headline",
    "hint",
    "lacks",
    "loses",
    "note",
    "notes",
    "not_scaling",
    "nothing",
    "only_new",
    "only_old",
    "reason",
    "reasons",
    "remarks",
    "says",
    "served_because",
    "suspicion",
    "text",
    "title",
    "unlike",
    "unmatched",
    "untrusted",
    "window",
    "withheld",
];

/// Fields that hold names of layers, claims and kinds of work, ids, units, commands, times of day, errors of other programs and texts of the user.
const NAMES: [&str; 52] = [
    "baseline",
    "claim",
    "command",
    "counted_by",
    "dir",
    "disturbed_by",
    "ended",
    "engine",
    "error",
    "estimate",
    "evidence",
    "file",
    "file_system",
    "flags",
    "gate",
    "generated_by",
    "head",
    "host",
    "id",
    "import",
    "kind",
    "label",
    "layer",
    "left_out",
    "level",
    "measured",
    "metric",
    "mounted",
    "name",
    "of",
    "old_name",
    "operation",
    "parameters",
    "plan",
    "plan_toml",
    "point",
    "program",
    "ready",
    "reference",
    "replay",
    "result",
    "run",
    "run_version",
    "schema",
    "spec",
    "started",
    "state",
    "time",
    "tool",
    "unit",
    "what",
    "workload",
];

/// The name of a field that holds text, alone, in a list or where it is known.
fn text_field(line: &str) -> Option<&str> {
    let (name, kind) = line.strip_prefix("pub ")?.split_once(": ")?;
    let kind = kind.trim_end_matches(',');
    matches!(kind, "String" | "Option<String>" | "Vec<String>").then_some(name)
}

/// Whether code compares a sentence, or chooses by one.
fn asks_a_sentence(line: &str) -> bool {
    let ends = |code: &str, field: &str| {
        let code = code.trim_end().trim_end_matches(".as_str()");
        let code = code.trim_end_matches(".as_deref()");
        code.strip_suffix(field)
            .is_some_and(|before| before.ends_with('.'))
    };
    let begins = |code: &str| {
        let code = code.trim_start().trim_start_matches(['&', '*']);
        let path: String = code
            .chars()
            .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '.'))
            .collect();
        let field = path
            .trim_end_matches(".as_str")
            .trim_end_matches(".as_deref");
        SENTENCES.iter().any(|name| ends(field, name))
    };
    let sides = |of: &str| line.split(of).map(str::to_owned).collect::<Vec<_>>();
    let compared = ["==", "!="].iter().any(|sign| {
        let sides = sides(sign);
        let is_one =
            |pair: &[String]| SENTENCES.iter().any(|name| ends(&pair[0], name)) || begins(&pair[1]);
        sides.windows(2).any(is_one)
    });
    // Whether there is one at all is no question about what it means.
    let chosen = line.split_once("match ").is_some_and(|(_, of)| {
        let of = of.trim_end_matches('{').trim_end();
        let is_text = of.ends_with(".as_str()") || of.ends_with(".as_deref()");
        is_text && SENTENCES.iter().any(|name| ends(of, name))
    });
    compared || chosen
}

/// What compares a sentence although it does not ask what it means, each with the reason.
const EQUAL_TEXTS: [(&str, &str, &str); 2] = [
    ("types/safe.rs", "a.answer == verdict", "it is a verdict"),
    (
        "render/markdown/brief.rs",
        "match table.title",
        "whether there is a title",
    ),
];

/// The report is the JSON contract, so its sentences are strings. Nobody asks one what it means.
#[test]
fn no_sentence_of_the_report_is_compared() {
    assert!(asks_a_sentence("if row.untrusted == other.untrusted {"));
    assert!(asks_a_sentence("match row.text.as_str() {"));
    assert!(asks_a_sentence("|a| wanted != &a.text"));
    assert!(!asks_a_sentence(
        "if row.label == other.label && row.text.len() > 3 {"
    ));
    let mut fields = 0;
    for (file, lines) in files("types") {
        for name in lines.iter().filter_map(|line| text_field(line)) {
            let is_sentence = SENTENCES.contains(&name);
            let is_name = NAMES.contains(&name);
            assert!(
                is_sentence != is_name,
                "{file}: `{name}` is a sentence or a name, and one list says so"
            );
            fields += 1;
        }
    }
    assert!(fields > 150, "{fields}");
    let mut used = Vec::new();
    for (file, lines) in files("") {
        for line in lines.iter().filter(|line| asks_a_sentence(line)) {
            let mut known = EQUAL_TEXTS.iter();
            let at = known.position(|(of, part, _)| *of == file && line.contains(part));
            used.push(at.unwrap_or_else(|| panic!("{file}: {line}: ask the data behind it")));
        }
    }
    for (n, (file, _, why)) in EQUAL_TEXTS.iter().enumerate() {
        assert!(used.contains(&n), "nothing in {file} compares: {why}");
    }
}

/// A literal of more words than the head of a column has.
fn has_sentence(line: &str) -> bool {
    const LONGEST_HEAD: usize = 6;
    let is_long = |text: &&str| text.split_whitespace().count() > LONGEST_HEAD;
    literals(line).iter().any(is_long)
}

#[test]
fn only_words_has_sentences() {
    assert!(has_sentence(
        r#"about: "Time of a read that lies this far.","#
    ));
    assert!(!has_sentence(r#""lost what POSIX or fsync(2) promises","#));
    let mut used = Vec::new();
    for (file, lines) in files("") {
        if ["words/", "render/"].iter().any(|of| file.starts_with(of)) || file == "numerals.rs" {
            continue;
        }
        let makes = |l: &&String| MAKES.iter().any(|way| l.contains(way)) || has_sentence(l);
        for line in lines.iter().filter(makes) {
            let mut known = NO_SENTENCES.iter();
            let at = known.position(|(of, part, _)| *of == file && line.contains(part));
            used.push(at.unwrap_or_else(|| panic!("{file}: {line}: say it in words/")));
        }
    }
    for (n, (file, part, what)) in NO_SENTENCES.iter().enumerate() {
        assert!(used.contains(&n), "nothing in {file} is {what}: {part}");
    }
}

/// What compares runs, holds them to gates and answers questions about them: statements, no sentences.
const ANSWERS: [&str; 7] = [
    "compare/alike.rs",
    "compare/mod.rs",
    "compare/odd.rs",
    "gate.rs",
    "history.rs",
    "safe.rs",
    "why.rs",
];

/// Lines of these that write a text that is no sentence of theirs.
const WRITTEN: [(&str, &str, &str); 2] = [
    ("gate.rs", "gate: gate.to_string(),", "a gate is a name"),
    (
        "compare/mod.rs",
        "why.words(&NO_NAMES).to_string()",
        "an error of another's words",
    ),
];

#[test]
fn comparisons_gates_and_answers_have_no_sentences() {
    let mut used = Vec::new();
    for (file, lines) in files("") {
        let is_answer = ANSWERS.contains(&&*file) || file.starts_with("compare/");
        for line in lines.iter().filter(|l| is_answer && writes_text(l)) {
            let mut written = WRITTEN.iter();
            let known = written.position(|(of, part, _)| *of == file && line.contains(part));
            used.push(known.unwrap_or_else(|| panic!("{file}: {line}")));
        }
    }
    for (n, (file, _, why)) in WRITTEN.iter().enumerate() {
        assert!(
            used.contains(&n),
            "nothing in {file} is written because {why}"
        );
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in ANSWERS {
        assert!(src.join(file).exists(), "{file} is gone");
    }
}

#[test]
fn a_text_cannot_be_searched() {
    let words = files("words");
    let (_, lines) = words
        .iter()
        .find(|(file, _)| file.ends_with("marked.rs"))
        .unwrap();
    let public = lines.iter().filter_map(|l| l.strip_prefix("pub fn "));
    let public: Vec<&str> = public.filter_map(|l| l.split('(').next()).collect();
    assert!(public.contains(&"joined"), "{public:?}");
    let searches = [
        "contains",
        "find",
        "split",
        "starts_with",
        "ends_with",
        "as_str",
        "strip",
    ];
    for method in public {
        let bad = searches.iter().any(|s| method.starts_with(s));
        assert!(!bad, "`Text::{method}` looks for meaning in a text");
    }
    for name in ["Deref", "AsRef", "Borrow", "PartialEq<"] {
        assert!(
            !lines.iter().any(|l| l.contains(name)),
            "`Text` is a `{name}`"
        );
    }
    for (file, lines) in words {
        let own = file.ends_with("marked.rs");
        let bad = |l: &&String| l.contains("to_string().") && !own;
        assert_eq!(lines.iter().find(bad), None, "{file}");
    }
}

/// How text is looked into: methods that texts have, and lists and paths have not, or with a pattern of characters.
const LOOKS: [&str; 19] = [
    ".split('",
    ".split(\"",
    ".split([",
    ".split(|c",
    ".split_once(",
    ".split_inclusive(",
    ".splitn(",
    ".rsplit",
    ".starts_with(",
    ".ends_with(",
    ".strip_prefix(",
    ".strip_suffix(",
    "_matches(",
    ".replacen(",
    ".parse",
    ".rfind(",
    ".contains('",
    ".contains(\"",
    ".contains([",
];

/// Code that looks into a text whose form is its meaning, each with the form.
const FORMS: [(&str, &str); 7] = [
    ("page/charts/paper.rs", "the attributes of SVG"),
    ("page/charts/svg.rs", "the elements of SVG"),
    (
        "page/names.rs",
        "a layer as it is written, with its options",
    ),
    (
        "tables/benchmarks.rs",
        "the parameters of a command scan, stored as NAME=VALUE",
    ),
    ("words/code_span.rs", "Markdown's marks around code"),
    (
        "words/figure_values.rs",
        "the names in braces of a declared note",
    ),
    (
        "words/number.rs",
        "the digits of a number that is being written",
    ),
];

/// A layer's specification is parsed by its own parser.
const PARSED: &str = ".parse::<Spec>()";

/// Renderers are checked by themselves (`render.rs`).
#[test]
fn no_meaning_is_read_out_of_a_text() {
    let looks = |line: &str| LOOKS.iter().any(|way| line.contains(way));
    assert!(looks("if shown.contains(\"x faster\") {") && looks("about.split([':', ';'])"));
    assert!(!looks("names.contains(&row.layer)") && !looks("slice.split_at(1)"));
    let mut used = Vec::new();
    for (file, lines) in files("") {
        let is_checked = !file.starts_with("render/") && !file.starts_with("words/numbers");
        let found: Vec<&String> = lines
            .iter()
            .filter(|line| is_checked && looks(&line.replace(PARSED, "")))
            .collect();
        if found.is_empty() || file == "numerals.rs" {
            continue;
        }
        let known = FORMS.iter().any(|(of, _)| *of == file);
        assert!(
            known,
            "{file} looks into a text: what it means is data beside it, or it has a form for FORMS\n{found:#?}"
        );
        used.push(file);
    }
    for (file, form) in FORMS {
        assert!(
            used.iter().any(|of| of == file),
            "nothing in {file} reads {form}"
        );
    }
}

/// Each format draws the one matrix. Only it, the table of sizes and the matrix of a run that goes on make cells of rows.
#[test]
fn there_is_one_matrix_of_cells() {
    let all = files("");
    let with = |what: &str| -> Vec<&str> {
        let has = |lines: &[String]| lines.iter().any(|line| line.contains(what));
        let found = all.iter().filter(|(_, lines)| has(lines));
        found.map(|(file, _)| file.as_str()).collect()
    };
    assert_eq!(with("pub struct Matrix<"), ["page/matrix.rs"]);
    let mut makers = with("MatrixCell::new(");
    makers.sort_unstable();
    assert_eq!(makers, ["page/matrix.rs", "page/sizes.rs", "so_far.rs"]);
}

/// Two rows have a verdict on a ratio. One holds a `Comparison`, and the other makes it of its fields, whose order the JSON
/// contract has. The answer to `why` repeats the verdict of a row.
#[test]
fn a_verdict_on_a_ratio_is_a_comparison() {
    let having = |what: &str| -> Vec<String> {
        let all = files("types").into_iter();
        let has = |lines: &[String]| lines.iter().any(|line| line.starts_with(what));
        let mut found: Vec<String> = all.filter(|(_, l)| has(l)).map(|(file, _)| file).collect();
        found.sort_unstable();
        found
    };
    let own = having("pub verdict: Verdict");
    assert_eq!(
        own,
        ["types/comparison.rs", "types/result.rs", "types/why.rs"]
    );
    let held = having("pub comparison: Comparison");
    assert_eq!(held, ["types/alternative.rs"]);
}

/// A new finding is a variant, its rule and its words: no other code knows which findings there are.
#[test]
fn a_finding_is_named_where_it_is_chosen_and_worded() {
    let names_one = |line: &String| {
        line.match_indices("Finding::").any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
        })
    };
    assert!(names_one(&"Finding::Late(x)".into()) && !names_one(&"SeriesFinding::Quick".into()));
    let all = files("");
    let naming = all.iter().filter(|(_, lines)| lines.iter().any(names_one));
    let naming: Vec<&str> = naming.map(|(file, _)| file.as_str()).collect();
    assert_eq!(naming, ["statements/findings.rs"]);
    let words = all.iter().find(|(file, _)| file == "words/findings.rs");
    let (_, words) = words.expect("the words of findings");
    let worded = words
        .iter()
        .any(|line| line.starts_with("impl Words for Finding<"));
    assert!(worded, "words/findings.rs has no words of them");
}
