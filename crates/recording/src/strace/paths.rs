//! Absolute paths, and symbolic links that lead up.

use std::collections::HashMap;

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

/// The directory of an absolute path.
pub fn parent(path: &[u8]) -> &[u8] {
    let at = path.iter().rposition(|b| *b == b'/').unwrap_or(0);
    &path[..at.max(1)]
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

/// Symbolic links whose targets are not replayed as they are, with the targets. They are followed here instead.
#[derive(Default)]
pub struct Links(pub HashMap<Vec<u8>, Vec<u8>>);

impl Links {
    /// Adds the link at an absolute path; its target as it is replayed, and whether that is another.
    pub fn add(&mut self, path: Vec<u8>, target: &[u8]) -> (Vec<u8>, bool) {
        let safe = safe_target(target);
        let other = safe != target;
        if other {
            self.0.insert(path, target.to_vec());
        }
        (safe, other)
    }

    /// An absolute path behind those links. The last component is followed only if `last`.
    pub fn follow(&self, path: Vec<u8>, last: bool) -> Vec<u8> {
        if self.0.is_empty() {
            return path;
        }
        let mut path = path;
        // As many as the kernel follows.
        for _ in 0..40 {
            let ends = (1..=path.len()).filter(|end| *end == path.len() || path[*end] == b'/');
            let found = ends
                .filter(|end| last || *end < path.len())
                .find_map(|end| {
                    let target = self.0.get(&path[..end])?;
                    Some((end, target.clone()))
                });
            let Some((end, target)) = found else { break };
            let mut there = normal(parent(&path[..end]), &target);
            there.extend_from_slice(&path[end..]);
            path = normal(b"/", &there);
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
        links.add(b"/r/l".to_vec(), b"../r/l");
        assert!(
            links.follow(b"/r/l".to_vec(), true).starts_with(b"/r"),
            "a loop ends"
        );
    }
}
