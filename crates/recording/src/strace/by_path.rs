//! Things at absolute paths, which move when a directory above them is renamed.

use std::collections::BTreeMap;

use crate::limits;

/// Bytes of the longest absolute path that is kept: of the directory, and of a name below it.
pub const LONGEST: usize = 2 * limits::NAME;

/// Things by their absolute paths.
#[derive(Debug)]
pub struct ByPath<T> {
    all: BTreeMap<Vec<u8>, T>,
    /// How many were moved so far.
    pub moved: u64,
    /// Bytes of all paths.
    pub bytes: u64,
}

impl<T> Default for ByPath<T> {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            moved: 0,
            bytes: 0,
        }
    }
}

impl<T> ByPath<T> {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn get(&self, path: &[u8]) -> Option<&T> {
        self.all.get(path)
    }

    pub fn get_mut(&mut self, path: &[u8]) -> Option<&mut T> {
        self.all.get_mut(path)
    }

    pub fn insert(&mut self, path: Vec<u8>, thing: T) {
        let bytes = path.len() as u64;
        if self.all.insert(path, thing).is_none() {
            self.bytes += bytes;
        }
    }

    /// What is at a path. It is made if there is nothing.
    pub fn at(&mut self, path: &[u8]) -> &mut T
    where
        T: Default,
    {
        self.all.entry(path.to_vec()).or_insert_with(|| {
            self.bytes += path.len() as u64;
            T::default()
        })
    }

    /// Removes what is at a path, but nothing below it.
    pub fn remove(&mut self, path: &[u8]) -> Option<T> {
        let thing = self.all.remove(path)?;
        self.bytes -= path.len() as u64;
        Some(thing)
    }

    /// Removes what is at a path and below it. Returns it with the rests of the paths.
    pub fn take(&mut self, path: &[u8]) -> Vec<(Vec<u8>, T)> {
        let mut first = path.to_vec();
        first.push(b'/');
        let mut last = path.to_vec();
        last.push(b'/' + 1);
        let below = self.all.range(first..last).map(|(key, _)| key.clone());
        let keys: Vec<Vec<u8>> = std::iter::once(path.to_vec()).chain(below).collect();
        let taken = keys.into_iter().filter_map(|mut key| {
            let thing = self.remove(&key)?;
            Some((key.split_off(path.len()), thing))
        });
        let taken: Vec<_> = taken.collect();
        self.moved += taken.len() as u64;
        taken
    }

    /// Puts what was taken from another path, unless a path becomes too long, or all paths do: the log is then refused.
    pub fn put(&mut self, path: &[u8], taken: Vec<(Vec<u8>, T)>) {
        for (rest, thing) in taken {
            let new = [path, &rest].concat();
            if new.len() <= LONGEST && self.bytes <= limits::LOG_NAMES {
                self.insert(new, thing);
            }
        }
    }

    /// A name is now another one, and replaces what was there; or they change places.
    pub fn renamed(&mut self, from: &[u8], to: &[u8], exchanges: bool) {
        let (moved, replaced) = (self.take(from), self.take(to));
        self.put(to, moved);
        if exchanges {
            self.put(from, replaced);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &ByPath<u8>) -> Vec<(String, u8)> {
        let each = all.all.iter();
        each.map(|(path, n)| (String::from_utf8_lossy(path).into_owned(), *n))
            .collect()
    }

    #[test]
    fn what_is_below_a_name_moves_with_it() {
        let mut all = ByPath::default();
        for (path, n) in [("/a", 1), ("/a-b", 2), ("/a/c", 3), ("/a0", 4), ("/d/e", 5)] {
            all.insert(path.into(), n);
        }
        all.renamed(b"/a", b"/d", false);
        let now = [("/a-b", 2), ("/a0", 4), ("/d", 1), ("/d/c", 3)];
        assert_eq!(of(&all), now.map(|(path, n)| (path.to_owned(), n)));
        all.renamed(b"/d/c", b"/a0", true);
        let now = [("/a-b", 2), ("/a0", 3), ("/d", 1), ("/d/c", 4)];
        assert_eq!(of(&all), now.map(|(path, n)| (path.to_owned(), n)));
        assert_eq!(all.moved, 5);
        all.renamed(b"/d", &[b'x'; LONGEST], false);
        assert_eq!(of(&all).len(), 3, "a path that is too long is forgotten");
        assert_eq!(all.bytes, (LONGEST + 4 + 3) as u64);
        *all.at(b"/a0") += 1;
        *all.at(b"/b") += 1;
        all.remove(b"/a-b");
        all.remove(b"/a-b");
        assert_eq!(all.bytes, (LONGEST + 3 + 2) as u64);
        all.bytes += limits::LOG_NAMES;
        all.renamed(b"/b", b"/c", false);
        assert_eq!(of(&all).len(), 2, "too many bytes");
    }
}
