//! What a point means is said by its workload, once: nobody after it looks a parameter up by its name,
//! or asks which workload it is. Layers read their options as fields (`layer_options!`), not by name. Other crates are
//! not checked.

use std::{collections::BTreeSet, fs, path::Path};

/// Crates that a point passes on its way from its workload to the reader.
const CRATES: [&str; 6] = ["cli", "lab", "layers", "model", "report", "store"];

/// Views of one workload, which may name it and its own parameters.
const VIEWS: [&str; 4] = [
    "cli/src/launch.rs",
    "report/src/statements/fidelity.rs",
    "report/src/facts/iops.rs",
    "report/src/facts/launch.rs",
];

/// How a parameter is looked up, or a workload asked for.
const LOOKUPS: [&str; 13] = [
    ".text(\"",
    ".number(\"",
    ".flag(\"",
    "point.get(\"",
    "params.get(\"",
    "params().get(\"",
    "params.contains_key(\"",
    "point[\"",
    "params[\"",
    "workload == \"",
    "workload != \"",
    "workload() == \"",
    "workload.as_str() {",
];

/// Questions which workload or layer it is, by the end of a file's path, and why each is asked.
const ASKED: [(&str, &[&str], &str); 8] = [
    (
        "cli/src/args.rs",
        &["launch", "replay", "steps"],
        "words after `--` are parsed by clap and are no parameters",
    ),
    (
        "cli/src/refused.rs",
        &["launch"],
        "the hint for a command whose words were not quoted",
    ),
    (
        "durability/mod.rs",
        &["file"],
        "a plan has a point; here only its layers are cut",
    ),
    (
        "model/src/facts.rs",
        &["tmpfs", "fuse"],
        "names of file systems of the kernel",
    ),
    (
        "facts/storage.rs",
        &["overlay"],
        "names of file systems of the kernel",
    ),
    (
        "model/src/spec.rs",
        &["native"],
        "the one layer that everything knows",
    ),
    (
        "report/src/words/code_span.rs",
        &["native"],
        "the word is no code in a sentence",
    ),
    (
        "facts/external.rs",
        &["command"],
        "the operation of an imported result",
    ),
];

/// The words of workloads and layers that a line asks for.
fn asks<'a>(line: &str, words: &[&'a str]) -> Vec<&'a str> {
    const BEFORE: [&str; 6] = [
        "== ",
        "!= ",
        "== Some(",
        "!= Some(",
        "starts_with(",
        "workload: ",
    ];
    let is_asked = |word: &&str| {
        [format!("\"{word}\""), format!("\"{word}:")]
            .iter()
            .any(|literal| {
                let mut parts = line.match_indices(literal.as_str());
                parts.any(|(at, _)| {
                    let (before, after) = (&line[..at], &line[at + literal.len()..]);
                    BEFORE.iter().any(|way| before.ends_with(way))
                        || [" =>", " |"].iter().any(|way| after.starts_with(way))
                        || before.contains("matches!(")
                })
            })
    };
    words.iter().copied().filter(is_asked).collect()
}

/// How an option of a layer is looked up by its name, without white space.
const OPTION_LOOKUPS: [&str; 4] = [
    ".options.get(",
    ".options.contains_key(",
    "options[\"",
    "variant.as_deref()==",
];

/// Lines of the product's code, without those of its inline tests, that look something up.
fn lookups(source: &str) -> Vec<String> {
    let product = source.lines().take_while(|l| *l != "#[cfg(test)]");
    let code = product.map(str::trim).filter(|l| !l.starts_with("//"));
    let looks =
        |line: &&str| line.starts_with(".get(\"") || LOOKUPS.iter().any(|way| line.contains(way));
    code.filter(looks).map(str::to_owned).collect()
}

/// How often the product's code looks an option up. A look-up may be broken across lines.
fn option_lookups(source: &str) -> usize {
    let product = source.split("#[cfg(test)]\nmod tests").next().unwrap();
    let code = product.split_whitespace().collect::<String>();
    let count = |way: &&str| code.matches(*way).count();
    OPTION_LOOKUPS.iter().map(count).sum()
}

fn visit(dir: &Path, file: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, file);
        } else if path.extension().is_some_and(|e| e == "rs") {
            file(&path);
        }
    }
}

#[test]
fn nobody_asks_again_what_the_workload_has_said() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut found, mut files, mut views) = (Vec::new(), 0, 0);
    for name in CRATES {
        visit(&crates.join(name).join("src"), &mut |path| {
            files += 1;
            let of = path.strip_prefix(&crates).unwrap().to_str().unwrap();
            let lines = lookups(&fs::read_to_string(path).unwrap());
            if VIEWS.iter().any(|view| of.starts_with(view)) {
                views += lines.len();
            } else {
                found.extend(lines.into_iter().map(|line| format!("crates/{of}: {line}")));
            }
        });
    }
    assert!(
        files > 100 && views > 0,
        "{files} files, {views} look-ups in views"
    );
    assert!(
        found.is_empty(),
        "a workload says what its points mean (crates/model/src/meaning.rs): ask that, not\n{}",
        found.join("\n")
    );
}

/// The words themselves are looked for, in whatever way they are compared: a workload or layer says what it
/// can do, as data. Layers may name themselves.
#[test]
fn who_asks_which_workload_or_layer_it_is_has_a_reason() {
    let workloads = layermark_probe::workloads::ALL.iter().map(|w| w.id());
    let words: Vec<&str> = workloads.chain(layermark_model::LAYERS).collect();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut found, mut asked) = (Vec::new(), BTreeSet::new());
    for name in CRATES.iter().filter(|name| **name != "layers") {
        visit(&crates.join(name).join("src"), &mut |path| {
            let of = path.strip_prefix(&crates).unwrap().to_str().unwrap();
            let source = fs::read_to_string(path).unwrap();
            let product = source.lines().take_while(|l| *l != "#[cfg(test)]");
            let code = product.map(str::trim).filter(|l| !l.starts_with("//"));
            let is_test = of.ends_with("tests.rs");
            for line in code.filter(|_| !is_test) {
                for word in asks(line, &words) {
                    let mut reasons = ASKED.iter();
                    let known = reasons
                        .find(|(file, words, _)| of.ends_with(file) && words.contains(&word));
                    match known {
                        Some((file, ..)) => drop(asked.insert((*file, word))),
                        None => found.push(format!("crates/{of}: {word}: {line}")),
                    }
                }
            }
        });
    }
    let allowed = ASKED
        .iter()
        .flat_map(|(file, words, _)| words.iter().map(|word| (*file, *word)));
    let unused: Vec<_> = allowed.filter(|pair| !asked.contains(pair)).collect();
    assert!(unused.is_empty(), "nobody asks: {unused:?}");
    assert!(
        found.is_empty(),
        "let it say what it can do (Meaning, Needs, the layer), or add a reason to ASKED\n{}",
        found.join("\n")
    );
}

#[test]
fn a_question_is_found_however_it_is_asked() {
    let words = ["iops", "vm", "container", "meta", "file"];
    for (line, expected) in [
        (
            "site.filter(|_| result.workload == \"iops\")",
            &["iops"][..],
        ),
        ("if matches!(layer.as_str(), \"vm\" | \"loop\") {", &["vm"]),
        ("_ if guest.layer != \"vm\" || !on_disk => None,", &["vm"]),
        ("if l.spec.starts_with(\"container:\") {", &["container"]),
        ("workload: \"meta\",", &["meta"]),
        ("\"file\" => one(),", &["file"]),
        ("let sizes = [(point.file_size, \"file\")];", &[]),
        ("Self::Guest => \"vm\",", &[]),
    ] {
        assert_eq!(asks(line, &words), expected, "{line}");
    }
}

/// Only `options/values.rs` looks an option up by its name.
#[test]
fn no_layer_looks_up_an_option_by_its_name() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../layers/src");
    let (mut found, mut own) = (Vec::new(), 0);
    visit(&src, &mut |path| {
        let of = path.strip_prefix(&src).unwrap().to_str().unwrap();
        match option_lookups(&fs::read_to_string(path).unwrap()) {
            0 => {}
            count if of == "options/values.rs" => own = count,
            count => found.push(format!("crates/layers/src/{of}: {count}")),
        }
    });
    assert_eq!(own, 2, "look-ups in options/values.rs");
    assert!(
        found.is_empty(),
        "an option is a field of the layer's options (crates/layers/src/options/values.rs)\n{}",
        found.join("\n")
    );
}

#[test]
fn a_lookup_is_found_and_a_test_of_the_same_file_is_not() {
    let source = "fn f() {\n    // point.text(\"op\")\n    let cold = row.point.get(\"cache\");\n}\n#[cfg(test)]\nmod tests { fn g() { p.text(\"op\"); } }";
    assert_eq!(lookups(source), ["let cold = row.point.get(\"cache\");"]);
    assert!(lookups("let cold = row.meaning.is_cold();").is_empty());
    let source = "let size = spec\n    .options\n    .get(\"size\");\nif spec.variant.as_deref() == None {}\n#[cfg(test)]\nmod tests { fn g() { s.options.get(\"size\"); } }";
    assert_eq!(option_lookups(source), 2);
}
