//! Lists of names, short enough for a sentence.

use std::collections::BTreeMap;

use layermark_model::WorkGroup;

use crate::{
    number::list,
    types::ResultRow,
    words::{Text, text},
};

/// More names than this in one clause are only counted.
const MANY: usize = 5;
/// More items of a kind than this are counted, not listed.
pub const LISTED: usize = 3;

/// Names rows by their kind of work if the group is complete, else by label.
pub fn name_all(all: &[&ResultRow], some: &[&ResultRow]) -> Text {
    if some.len() == all.len() && some.len() > 1 {
        return text!("all {} operations", some.len());
    }
    let tally = |rows: &[&ResultRow]| {
        rows.iter()
            .fold(BTreeMap::<WorkGroup, usize>::new(), |mut n, r| {
                *n.entry(r.meaning.group()).or_default() += 1;
                n
            })
    };
    let (whole, part) = (tally(all), tally(some));
    // Each name, and how many operations it stands for.
    let mut names: Vec<(Text, usize)> = Vec::new();
    for (kind, n) in &part {
        if whole.get(kind) == Some(n) && *n > 1 {
            names.push((kind.words().into(), *n));
        } else {
            let own = some.iter().filter(|r| r.meaning.group() == *kind);
            names.extend(own.map(|r| (quoted(&r.label), 1)));
        }
    }
    if names.len() > MANY {
        let rest = names.split_off(MANY - 1);
        let rest: usize = rest.iter().map(|(_, n)| n).sum();
        names.push((text!("{rest} more"), rest));
    }
    let names: Vec<Text> = names.into_iter().map(|(name, _)| name).collect();
    list(&names).into()
}

/// Layers for a sentence; many layers are only counted.
pub fn layers(names: &[&str]) -> Text {
    let names: Vec<Text> = names.iter().map(|name| Text::code(name)).collect();
    some_of(&names).into()
}

/// The same of names that are texts already.
pub fn some_of<S: ToString>(names: &[S]) -> String {
    if names.len() > LISTED {
        format!("{} layers", names.len())
    } else {
        list(names)
    }
}

/// The first items, and how many more there are.
pub fn first_of<T>(items: &[T], words: impl Fn(&T) -> Text) -> Text {
    let mut names: Vec<Text> = items.iter().take(LISTED).map(words).collect();
    if items.len() > LISTED {
        names.push(text!("{} more", items.len() - LISTED));
    }
    list(&names).into()
}

/// All names, as code spans.
pub fn coded(names: &[&str]) -> Text {
    let names: Vec<Text> = names.iter().map(|name| Text::code(name)).collect();
    list(&names).into()
}

/// What is said of something that is called so: `` `fuse`: it is slower ``.
pub fn said_of(name: &Text, said: &str) -> Text {
    text!("{name}: {said}")
}

/// A label in curly quotes, because labels contain commas and spaces.
pub fn quoted(label: &str) -> Text {
    text!("\u{201c}{label}\u{201d}")
}

/// Labels of rows, of many only the first.
pub fn labels(rows: &[&ResultRow]) -> Text {
    first_of(rows, |r| quoted(&r.label))
}
