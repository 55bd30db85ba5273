//! Finds modules of a folder that use each other in a circle. The unit tests of the crate `layers`
//! include this file too.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// What each module uses. The folder's own module is the empty name.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Fails when modules of the folder `parent`, as in `crate::parent`, form a circle.
pub fn assert_none(src: &Path, parent: &[&str]) {
    let folder = src.join(parent.join("/"));
    let own = [folder.join("mod.rs"), folder.with_extension("rs")];
    let own = own.into_iter().find(|path| path.exists()).unwrap();
    let mut files = vec![(own, Vec::new())];
    collect(&folder, &[], &mut files);
    let modules: BTreeSet<&String> = files.iter().filter_map(|(_, at)| at.first()).collect();
    let mut uses = Uses::new();
    for (path, at) in &files {
        let from = at.first().cloned().unwrap_or_default();
        let found = uses.entry(from.clone()).or_default();
        for path in paths(&fs::read_to_string(path).unwrap()) {
            let to = resolve(&path, at, parent).filter(|to| !at.is_empty() || modules.contains(to));
            let to = to.map(|to| {
                if modules.contains(&to) {
                    to
                } else {
                    String::new()
                }
            });
            found.extend(to.filter(|to| *to != from));
        }
    }
    let edges: usize = uses.values().map(BTreeSet::len).sum();
    assert!(edges > modules.len(), "hardly anything was read: {uses:?}");
    let circle = circle(uses);
    assert!(circle.is_empty(), "in {}: {circle:#?}", folder.display());
}

/// Removes modules that use none of those left, until only circles and what uses them are left.
fn circle(mut uses: Uses) -> Uses {
    let free = |uses: &Uses| {
        let mut modules = uses.iter();
        let free = modules.find(|(_, to)| to.iter().all(|to| !uses.contains_key(to)));
        free.map(|(module, _)| module.clone())
    };
    while let Some(module) = free(&uses) {
        uses.remove(&module);
    }
    uses
}

/// Files below `dir` with the path of their module below the folder.
fn collect(dir: &Path, at: &[String], files: &mut Vec<(PathBuf, Vec<String>)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut module = at.to_vec();
        if name != "mod" {
            module.push(name.clone());
        }
        if path.is_dir() {
            collect(&path, &module, files);
        } else if name != "tests" && !module.is_empty() {
            files.push((path, module));
        }
    }
}

/// The first part of a path below the folder; empty for the folder's own module, `None` outside.
fn resolve(path: &[String], at: &[String], parent: &[&str]) -> Option<String> {
    let supers = path.iter().take_while(|part| *part == "super").count();
    // Else it is the visibility `pub(super)`.
    let first = |path: &[String]| path.first().cloned();
    match path[0].as_str() {
        "crate" => first(
            path[1..].strip_prefix(&parent.iter().map(|p| (*p).into()).collect::<Vec<_>>()[..])?,
        ),
        "super" => first(&[at.get(..at.len().checked_sub(supers)?)?, &path[supers..]].concat()),
        // A folder's own module names the others directly.
        _ if at.is_empty() => first(path),
        _ => None,
    }
}

/// All paths of a file, without those of comments and of inline tests.
fn paths(text: &str) -> Vec<Vec<String>> {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = product.lines().map(|l| l.split("//").next().unwrap());
    let product = lines.collect::<Vec<_>>().join(" ").replace("::", ":");
    let mut found = Vec::new();
    // For each open brace, the path in front of it.
    let mut prefixes: Vec<Vec<String>> = Vec::new();
    let (mut path, mut word) = (Vec::new(), String::new());
    for c in product.chars().chain([';']) {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        // A glob, unless it stands alone.
        if c == '*' && !path.is_empty() {
            word.push(c);
        }
        let ended = !word.is_empty();
        if ended {
            path.push(std::mem::take(&mut word));
        }
        match c {
            ':' => continue,
            '{' => prefixes.push(path.clone()),
            _ if ended => found.push(path),
            _ => {}
        }
        if c == '}' {
            prefixes.pop();
        }
        let inside = matches!(c, '{' | ',' | ' ' | '}');
        path = prefixes
            .last()
            .filter(|_| inside)
            .cloned()
            .unwrap_or_default();
    }
    found
}

#[test]
fn a_circle_is_found_and_paths_are_read() {
    let read = |text| -> Vec<String> { paths(text).iter().map(|p| p.join("/")).collect() };
    let text = "use super::{a, b::{c, d}};\nfn f() { super::e(1) } // super::x";
    let read: Vec<String> = read(text)
        .into_iter()
        .filter(|p| p.starts_with("super"))
        .collect();
    assert_eq!(read, ["super/a", "super/b/c", "super/b/d", "super/e"]);
    let uses = |pairs: &[(&str, &str)]| {
        let mut uses = Uses::new();
        for (from, to) in pairs {
            uses.entry((*from).into()).or_default().insert((*to).into());
        }
        uses
    };
    assert!(circle(uses(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    let left = circle(uses(&[("a", "b"), ("b", "c"), ("c", "b"), ("d", "e")]));
    assert_eq!(left.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
}
