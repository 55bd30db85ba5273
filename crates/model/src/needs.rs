//! What a point needs from its layer and from the lab, declared by its workload. It is attached to the
//! point and neither stored nor sent.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use crate::Point;

/// What a point needs. By default nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // independent needs of a point
pub struct Needs {
    /// Files that must be in `packaged/` before the layer is set up. See [`Self::packaged_files`].
    pub packaged: Vec<PackagedFile>,
    /// Many small files that must be there too. They are not listed one by one, because a point may have
    /// a million.
    pub packaged_tree: Option<PackagedTree>,
    /// What it does with files of this host, such as a program's, that are put into `packaged/` as well.
    pub host_files: HostFiles,
    /// Packaged files that are open before the clock starts, by path below the layer's directory.
    /// Inspecting them, and their backing files, does not affect the measurement.
    pub open_before: Vec<PathBuf>,
    /// Files that the point keeps in the layer's directory for later trials, until the layer is
    /// torn down.
    pub kept_files: Vec<PackagedFile>,
    /// The kept file that it uses: its size, and how it was made. Points with the same value follow
    /// each other in a block, so that the file is made once.
    pub kept_file_key: Option<(u64, u64)>,
    /// The most bytes that the point needs on disk at once, in addition to packaged and kept files.
    pub space: u64,
    /// How many files each trial makes and removes, for a forecast.
    pub files: u64,
    /// How many more the first trial of a session makes, which stay until the layer is removed.
    pub first_files: u64,
    /// How long a trial lasts whose length the point fixes.
    pub lasts: Duration,
    /// Whether it starts programs that must be in the layer.
    pub programs: bool,
    /// Whether packaged files must be restored before each trial: those that it needs, or all if it needs none.
    pub refresh: bool,
    /// Whether the layer itself has to be torn down and set up again before each trial.
    pub restart: bool,
    /// Whether the point as it is run may differ between layers.
    pub per_layer: bool,
    /// The second probe, if the point has two ends.
    pub near: NearEnd,
    /// An additional trial per layer and session that does not count, for the facts it records
    /// ([`crate::Trial::figures`]).
    pub extra: Option<Point>,
}

impl Needs {
    /// All files that must be in `packaged/` before the layer is set up.
    pub fn packaged_files(&self) -> impl Iterator<Item = PackagedFile> + '_ {
        let of_tree = |tree: &PackagedTree| {
            let tree = tree.clone();
            (0..tree.files).map(move |i| PackagedFile::random(tree.path(i), tree.file_size))
        };
        let tree = self.packaged_tree.iter().flat_map(of_tree);
        self.packaged.iter().cloned().chain(tree)
    }

    /// Why several hosts cannot use the same packaged files at this point.
    pub fn not_one_package(&self) -> Option<&'static str> {
        let has = !self.packaged.is_empty() || self.packaged_tree.is_some();
        match self.host_files {
            HostFiles::Changed => Some("it changes its packaged files"),
            _ if self.refresh => Some("it changes its packaged files"),
            HostFiles::None if !has => Some("it has no packaged files"),
            HostFiles::None | HostFiles::Read => None,
        }
    }

    /// Names right below `packaged/` of these files and of the directories that hold them, each once.
    pub fn packaged_names(&self) -> Vec<String> {
        let paths = self.packaged.iter().map(|file| &file.path);
        let roots = self.packaged_tree.iter().map(|tree| &tree.root);
        let name = |path: &String| path.split('/').next().unwrap_or_default().to_owned();
        let names: BTreeSet<String> = paths.chain(roots).map(name).collect();
        names.into_iter().collect()
    }
}

/// What a point does with files of this host that are put into its layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HostFiles {
    /// It has none.
    #[default]
    None,
    /// It reads them or starts them as a program.
    Read,
    /// It may change them.
    Changed,
}

/// Where the near end of work with two ends is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NearEnd {
    /// The work has one end.
    #[default]
    None,
    /// At the other end of a network path.
    Path,
    /// On this host, in the directory that has the layer's files.
    OtherSide,
}

impl NearEnd {
    /// Whether the work has two ends: a second probe takes the turns, and the one in the layer serves it.
    pub fn has_two(self) -> bool {
        self != Self::None
    }

    /// Whether both ends work in the same directory.
    pub fn is_other_side(self) -> bool {
        self == Self::OtherSide
    }
}

/// A file that is put into a layer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackagedFile {
    /// Path below `packaged/`; for a kept file, path below the layer's directory.
    pub path: String,
    /// Size, bytes.
    pub size: u64,
    /// Its content, in records of this many bytes.
    pub pattern: (Pattern, u64),
    /// Whether each block has a header by which it is checked.
    pub stamped: bool,
}

impl PackagedFile {
    /// A file of random data with headers.
    pub fn random(path: String, size: u64) -> Self {
        Self {
            path,
            size,
            pattern: (Pattern::Random, size),
            stamped: true,
        }
    }
}

/// Small files of random data with headers, in numbered directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagedTree {
    /// Path of their root below `packaged/`.
    pub root: String,
    /// How many there are.
    pub files: u64,
    /// How many there are in one directory.
    pub per_directory: u64,
    /// Size of each, bytes.
    pub file_size: u64,
}

impl PackagedTree {
    /// Path of file `i` below `packaged/`.
    pub fn path(&self, i: u64) -> String {
        format!("{}/{}", self.root, Self::name(i, self.per_directory))
    }

    /// Path of file `i` below the root of such a tree.
    pub fn name(i: u64, per_directory: u64) -> String {
        format!("d{}/f{i}", i / per_directory)
    }
}

crate::words! {
    /// Data of a record.
    pub enum Pattern {
        /// Seeded and incompressible. Repeats after 1 MiB in a larger record.
        Random = "random",
        /// Zero bytes.
        Zeros = "zeros",
        /// The letter A.
        A = "a",
        /// The letter A, with a carriage return and line feed at the end of each record.
        ACrlf = "a-crlf",
        /// English words: compresses to about a third.
        Text = "text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_its_packaged_files_needs_files_of_its_own() {
        let file = || vec![PackagedFile::random("a".into(), 1)];
        let of = |packaged, host_files, refresh| {
            let needs = Needs {
                packaged,
                host_files,
                refresh,
                ..Needs::default()
            };
            needs.not_one_package()
        };
        let none = Vec::new;
        assert_eq!(of(file(), HostFiles::None, false), None);
        assert_eq!(of(none(), HostFiles::Read, false), None);
        assert_eq!(
            of(none(), HostFiles::None, false),
            Some("it has no packaged files")
        );
        let changes = Some("it changes its packaged files");
        assert_eq!(of(file(), HostFiles::None, true), changes);
        assert_eq!(of(file(), HostFiles::Changed, false), changes);
    }
}
