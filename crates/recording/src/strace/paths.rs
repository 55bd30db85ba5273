//! Absolute paths, and symbolic links that lead up.

use super::by_path::{ByPath, LONGEST};

/// A path without `.`, `..` and empty components. Does not follow links.
pub fn normal(base: &[u8], path: &[u8]) -> Vec<u8> {
    let whole = if path.first() == Some(&b'/') {
        path.to_vec()
    } else {
        [base, b"/", path].concat()
    };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in whole.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut out = Vec::with_capacity(whole.len());
    for part in parts {
        out.push(b'/');
        out.extend_from_slice(part);
    }
    if out.is_empty() {
        out.push(b'/');
    }
    out
}

/// The directory of an absolute path. An empty path has an empty one.
pub fn parent(path: &[u8]) -> &[u8] {
    let at = path.iter().rposition(|b| *b == b'/').unwrap_or(0);
    &path[..at.max(1).min(path.len())]
}

/// A path below a directory, relative to it; `.` for the directory itself.
pub fn below<'a>(root: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    match path.strip_prefix(root)? {
        b"" => Some(b"."),
        rest => rest.strip_prefix(b"/"),
    }
}

/// A relative path without `.` and empty components; `None` if it goes up.
pub fn plain(path: &[u8]) -> Option<Vec<u8>> {
    let parts = path.split(|b| *b == b'/');
    let parts: Vec<&[u8]> = parts.filter(|part| !matches!(part, &b"" | &b".")).collect();
    if parts.contains(&&b".."[..]) {
        return None;
    }
    if parts.is_empty() {
        return Some(b".".to_vec());
    }
    Some(parts.join(&b'/'))
}

/// The target of a link as it is replayed: one that only goes down, of the same length.
pub fn safe_target(target: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(target.len());
    let mut parts = target.split(|b| *b == b'/').peekable();
    while let Some(part) = parts.next() {
        match part {
            b"" | b"." | b".." => out.extend(part.iter().map(|_| b'_')),
            part => out.extend_from_slice(part),
        }
        if let Some(next) = parts.peek() {
            let lone = out.last().is_none_or(|b| *b == b'/') || next.is_empty();
            out.push(if lone { b'_' } else { b'/' });
        }
    }
    if out.is_empty() {
        out.push(b'_');
    }
    out
}

/// Whether a name ends in a slash, so that it must be a directory's, and a link is followed.
pub fn ends_in_slash(name: &[u8]) -> bool {
    name.ends_with(b"/") || name.ends_with(b"/.")
}

/// A symbolic link.
#[derive(Debug)]
struct Link {
    target: Vec<u8>,
    /// Its target is not replayed as it is. It is followed here instead.
    changed: bool,
}

/// Symbolic links by their absolute paths.
#[derive(Default)]
pub struct Links {
    all: ByPath<Link>,
    any_changed: bool,
}

impl Links {
    /// Adds the link at an absolute path; its target as it is replayed, and whether that is another.
    pub fn add(&mut self, path: Vec<u8>, target: &[u8]) -> (Vec<u8>, bool) {
        let safe = safe_target(target);
        let changed = safe != target;
        self.any_changed |= changed;
        let target = target.to_vec();
        self.all.insert(path, Link { target, changed });
        (safe, changed)
    }

    /// A name was removed.
    pub fn remove(&mut self, path: &[u8]) {
        self.all.remove(path);
    }

    /// A name is now another one, or two have changed places.
    pub fn renamed(&mut self, from: &[u8], to: &[u8], exchanges: bool) {
        self.all.renamed(from, to, exchanges);
    }

    /// How many were moved so far.
    pub fn moved(&self) -> u64 {
        self.all.moved
    }

    /// Bytes of their paths.
    pub fn bytes(&self) -> u64 {
        self.all.bytes
    }

    /// An absolute path behind links that are not replayed as they are. The last component is followed only if `last`.
    pub fn follow(&self, path: Vec<u8>, last: bool) -> Vec<u8> {
        if self.any_changed {
            self.behind(path, last, |link| link.changed)
        } else {
            path
        }
    }

    /// An absolute path behind all links.
    pub fn real(&self, path: &[u8], last: bool) -> Vec<u8> {
        self.behind(path.to_vec(), last, |_| true)
    }

    fn behind(&self, path: Vec<u8>, last: bool, follows: impl Fn(&Link) -> bool) -> Vec<u8> {
        let mut path = path;
        if self.all.is_empty() {
            return path;
        }
        // As many as the kernel follows.
        for _ in 0..40 {
            let ends = (1..=path.len()).filter(|end| *end == path.len() || path[*end] == b'/');
            let found = ends
                .filter(|end| last || *end < path.len())
                .find_map(|end| {
                    let link = self.all.get(&path[..end]).filter(|link| follows(link))?;
                    Some((end, &link.target))
                });
            let Some((end, target)) = found else { break };
            let mut there = normal(parent(&path[..end]), target);
            there.extend_from_slice(&path[end..]);
            path = normal(b"/", &there);
            if path.len() > LONGEST {
                break;
            }
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_normal() {
        assert_eq!(normal(b"/a/b", b"../c//d/."), b"/a/c/d");
        assert_eq!(normal(b"/a", b"/x/.."), b"/");
        assert_eq!(parent(b"/a/b"), b"/a");
        assert_eq!(parent(b"/a"), b"/");
        assert_eq!(parent(b"/"), b"/");
        assert_eq!(parent(b""), b"");
        assert_eq!(below(b"/a", b"/a/b/c"), Some(&b"b/c"[..]));
        assert_eq!(below(b"/a", b"/a"), Some(&b"."[..]));
        assert_eq!(below(b"/a", b"/ab"), None);
        assert_eq!(plain(b"./a//b/"), Some(b"a/b".to_vec()));
        assert_eq!(plain(b"a/../b"), None);
    }

    #[test]
    fn targets_that_go_up_are_replaced() {
        for (target, safe) in [
            ("a/b", "a/b"),
            ("../x", "__/x"),
            ("/etc/passwd", "_etc/passwd"),
            ("", "_"),
            ("a/", "a_"),
            ("./a", "_/a"),
            ("//", "__"),
            ("a//b", "a_/b"),
        ] {
            let found = safe_target(target.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), safe, "{target}");
            assert_eq!(crate::Name(found).refused(), None, "{target}");
        }
    }

    #[test]
    fn links_that_go_up_are_followed() {
        let mut links = Links::default();
        assert!(links.add(b"/r/bin/x".to_vec(), b"../pkg").1);
        assert!(!links.add(b"/r/y".to_vec(), b"pkg").1);
        assert_eq!(links.follow(b"/r/bin/x/f".to_vec(), false), b"/r/pkg/f");
        assert_eq!(links.follow(b"/r/bin/x".to_vec(), false), b"/r/bin/x");
        assert_eq!(links.follow(b"/r/bin/x".to_vec(), true), b"/r/pkg");
        assert_eq!(links.follow(b"/r/y/f".to_vec(), true), b"/r/y/f");
        assert_eq!(links.real(b"/r/y/f", true), b"/r/pkg/f");
        links.add(b"/r/l".to_vec(), b"../r/l");
        assert!(
            links.follow(b"/r/l".to_vec(), true).starts_with(b"/r"),
            "a loop ends"
        );
    }
}
