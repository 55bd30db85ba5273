//! The modules of the crate depend on each other one way: a circle cannot be read from one end.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Modules whose own modules must not form a circle either.
const OPENED: [&str; 3] = ["facts", "statements", "words"];

/// What each module uses, and in which file.
type Uses = BTreeMap<String, BTreeMap<String, PathBuf>>;

#[test]
fn modules_form_no_circle() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut uses = Uses::new();
    collect(&src, &src, &mut uses);
    let known: Vec<&str> = uses.keys().map(String::as_str).collect();
    for module in ["facts::causes", "render", "types", "views"] {
        assert!(known.contains(&module), "{module} was not read: {known:?}");
    }
    assert!(uses["render"].contains_key("types"), "{uses:?}");
    if let Some(circle) = circle(&uses) {
        let steps = circle.windows(2).map(|pair| {
            let file = uses[&pair[0]][&pair[1]].display();
            format!("  {} uses {} in {file}", pair[0], pair[1])
        });
        panic!("a circle:\n{}", steps.collect::<Vec<_>>().join("\n"));
    }
}

#[test]
fn a_circle_is_found_and_paths_are_read() {
    let paths = |text: &str| -> Vec<String> { used(text).into_iter().collect() };
    assert_eq!(
        paths("use crate::{a::{self, b}, c::{d::E, f}, G};\nlet x = crate::h::i();"),
        ["a", "a::b", "c::d::E", "c::f", "G", "h::i"]
            .map(str::to_owned)
            .into_iter()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );
    let product = "use crate::a;\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}\n// crate::c\n";
    assert_eq!(paths(product), ["a"]);
    let edge = |to: &str| BTreeMap::from([(to.to_owned(), PathBuf::new())]);
    let mut uses = Uses::from([("a".into(), edge("b")), ("b".into(), edge("c"))]);
    assert_eq!(circle(&uses), None);
    uses.insert("c".into(), edge("b"));
    assert_eq!(circle(&uses).unwrap(), ["b", "c", "b"]);
}

fn collect(src: &Path, dir: &Path, uses: &mut Uses) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(src, &path, uses);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            let file = path.strip_prefix(src).unwrap();
            let names = file.with_extension("");
            let names = names.iter().map(|part| part.to_str().unwrap());
            let names: Vec<&str> = names.filter(|n| *n != "mod").collect();
            let from = module(&names);
            let found = uses.entry(from.clone()).or_default();
            // `super` is the folder that the file, or the folder of a `mod.rs`, lies in.
            let above = [&names[..names.len() - 1], &[""]].concat().join("::");
            let text = fs::read_to_string(&path).unwrap();
            for to in used(&text.replace("super::", &format!("crate::{above}"))) {
                let to = module(&to.split("::").collect::<Vec<_>>());
                if to != from && !from.starts_with(&format!("{to}::")) && from != "lib" {
                    found.entry(to).or_insert_with(|| file.to_owned());
                }
            }
        }
    }
}

/// The module that a path lies in; what the crate exports at its root are types.
fn module(path: &[&str]) -> String {
    let is_type = |name: &str| name.starts_with(char::is_uppercase);
    match path {
        [first, ..] if is_type(first) => "types".into(),
        [first, second, ..] if OPENED.contains(first) && second.starts_with(char::is_lowercase) => {
            format!("{first}::{second}")
        }
        [first, ..] => (*first).into(),
        [] => String::new(),
    }
}

/// Paths behind `crate::`, but for those of inline tests and of comments.
fn used(text: &str) -> BTreeSet<String> {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = product.lines().map(|l| l.split("//").next().unwrap());
    let product = lines.collect::<Vec<_>>().join(" ");
    let mut found = BTreeSet::new();
    for (at, _) in product.match_indices("crate::") {
        expand(
            "",
            &mut product[at + "crate::".len()..].chars().peekable(),
            &mut found,
        );
    }
    found
}

/// Reads one path, with all that stands in its braces.
fn expand(
    prefix: &str,
    text: &mut std::iter::Peekable<std::str::Chars>,
    found: &mut BTreeSet<String>,
) {
    let mut path = prefix.to_owned();
    while let Some(c) = text.peek().copied() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | ':' => path.push(c),
            '{' => {
                while matches!(text.peek(), Some('{' | ',' | ' ')) {
                    text.next();
                    while text.peek() == Some(&' ') {
                        text.next();
                    }
                    if text.peek() != Some(&'}') {
                        expand(&path, text, found);
                    }
                }
                text.next();
                return;
            }
            _ => break,
        }
        text.next();
    }
    // `x as y` is x.
    while text.peek().is_some_and(|c| !matches!(c, ',' | '}' | ';')) && !prefix.is_empty() {
        text.next();
    }
    let path = path.trim_end_matches("::self").trim_end_matches("::");
    if !path.is_empty() {
        found.insert(path.to_owned());
    }
}

/// The first circle, its beginning at both ends.
fn circle(uses: &Uses) -> Option<Vec<String>> {
    fn walk(at: &str, path: &mut Vec<String>, done: &mut BTreeSet<String>, uses: &Uses) -> bool {
        if let Some(start) = path.iter().position(|m| m == at) {
            path.drain(..start);
            path.push(at.into());
            return true;
        }
        if !done.insert(at.into()) {
            return false;
        }
        path.push(at.into());
        let next = uses.get(at).into_iter().flat_map(BTreeMap::keys);
        if next.into_iter().any(|to| walk(to, path, done, uses)) {
            return true;
        }
        path.pop();
        false
    }
    let mut done = BTreeSet::new();
    uses.keys().find_map(|start| {
        let mut path = Vec::new();
        walk(start, &mut path, &mut done, uses).then_some(path)
    })
}
