//! Paths that the user knows, for messages: layermark works in views of directories, under paths of its own.

use std::{
    fmt::Display,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use layermark_model::Facts;

/// An existing view, for messages.
struct KnownView {
    path: PathBuf,
    /// The path by which the user knows it.
    named: PathBuf,
    /// Mount point of the file system that holds it.
    mounted: PathBuf,
}

impl KnownView {
    /// The path by which the user knows a file in the view.
    fn named(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.path).ok()?;
        Some(self.named.join(below))
    }
}

static KNOWN: Mutex<Vec<KnownView>> = Mutex::new(Vec::new());

fn known() -> MutexGuard<'static, Vec<KnownView>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a view: the user knows it as `named`, and `mounted` is the mount point of the file system that holds it.
pub(crate) fn add(path: &Path, named: &Path, mounted: PathBuf) {
    known().push(KnownView {
        path: path.into(),
        named: named.into(),
        mounted,
    });
}

/// Forgets a view.
pub(crate) fn remove(path: &Path) {
    known().retain(|k| k.path != path);
}

/// Prints a message with the paths that the user knows. If the terminal is gone, that is not an
/// error.
pub fn tell(text: impl Display) {
    let _ = writeln!(io::stderr(), "layermark: {}", in_words(&text.to_string()));
}

/// A message with the paths that the user knows.
pub fn in_words(text: &str) -> String {
    known().iter().fold(text.to_owned(), |text, k| {
        let named = k.named.to_string_lossy();
        text.replace(&*k.path.to_string_lossy(), &named)
    })
}

/// The path by which other processes of this host know a file in a work directory.
pub(crate) fn named(path: &Path) -> PathBuf {
    let known = known();
    let mut named = known.iter().filter_map(|k| k.named(path));
    named.next().unwrap_or_else(|| path.to_owned())
}

/// Facts with the paths that the user knows. A view is not one of the user's mounts, so the mount
/// that holds the directory is named instead.
pub fn in_facts(mut facts: Facts) -> Facts {
    for k in known().iter() {
        let named = |path: &Path| k.named(path).unwrap_or_else(|| path.to_owned());
        for mount in &mut facts.mounts {
            mount.at = if mount.at == k.path {
                k.mounted.clone()
            } else {
                named(&mount.at)
            };
        }
        for path in &mut facts.backing {
            *path = named(path);
        }
    }
    let mounts = facts.mounts.iter_mut();
    let texts = mounts.flat_map(|m| [&mut m.source, &mut m.options]);
    for text in texts.chain(facts.notes.values_mut()) {
        *text = in_words(text);
    }
    facts
}
