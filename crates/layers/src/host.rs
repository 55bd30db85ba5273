//! Common parts of layers that are a directory on this host.

use std::{
    cell::RefCell,
    collections::HashSet,
    fs::File,
    io,
    net::{IpAddr, Ipv4Addr},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use layermark_model::{CpuTime, DroppedCaches, Facts, SECCOMP_FILTERS, Spec, protocol::UNTIMED};
use layermark_sys::process;
use rustix::fs::{Advice, fadvise, syncfs};

use crate::{
    BackingExtents, Base, Content, End, KernelCaches, LayerError, Place, PlaceInfo, Wire,
    child::{self, Process},
    devices, extents, fd,
    held::apart,
    mounts,
    net::link::Link,
    process_tree::ProcessTree,
    tree::{self, Seen},
};

/// Directory of packaged files below the directory the probe works in.
pub(crate) const PACKAGED: &str = "packaged";

/// A directory on this host, and the processes that serve it.
pub(crate) struct HostPlace {
    pub(crate) layer: String,
    info: PlaceInfo,
    master: PathBuf,
    exe: PathBuf,
    /// Another path of the directory, by which its mounts are found.
    mounted_at: Option<PathBuf>,
    /// Directories, each with the file system type that must be mounted there.
    proof: Vec<(PathBuf, String)>,
    /// Directories whose files serve this layer from another cache.
    backing_dirs: Vec<PathBuf>,
    /// A backing directory in which the files have other names, and the same inode numbers.
    renamed_below: Option<PathBuf>,
    /// Directories of a union: the file is in the first one that has it.
    stacked: Vec<PathBuf>,
    /// A directory on the devices that hold the data, if the layer's mount does not name them.
    on_device_of: Option<PathBuf>,
    /// Files that serve this layer from another cache.
    backing: Vec<PathBuf>,
    /// Whether the image's file system reports where data is in the image.
    plain: bool,
    /// Processes that start others, and whose CPU time counts as the layer's.
    helper_trees: RefCell<Vec<ProcessTree>>,
    notes: Vec<(String, String)>,
    versions: Vec<(String, String)>,
    content: Content,
    /// Its files are in memory, so they cannot be made cold.
    in_memory: bool,
    refresher: Option<Refresher>,
    /// The network between both ends of work with two ends.
    link: Option<Link>,
    /// State of the packaged files when they were last restored.
    seen: Seen,
}

/// A faster way to restore packaged files than comparing them.
type Refresher = Box<dyn FnMut(&[String]) -> Result<(), LayerError> + Send>;

impl HostPlace {
    pub(crate) fn new(base: &Base, spec: &Spec, dir: PathBuf) -> Self {
        Self {
            layer: spec.to_string(),
            info: PlaceInfo::of_dir(dir),
            master: base.packaged.clone(),
            exe: base.exe.clone(),
            mounted_at: None,
            proof: Vec::new(),
            backing_dirs: Vec::new(),
            renamed_below: None,
            stacked: Vec::new(),
            on_device_of: None,
            backing: Vec::new(),
            plain: false,
            helper_trees: RefCell::default(),
            notes: Vec::new(),
            versions: Vec::new(),
            content: base.content,
            in_memory: false,
            refresher: None,
            link: None,
            seen: Seen::new(),
        }
    }

    /// Sets another path of the directory, by which its mounts are found.
    pub(crate) fn mounted_at(mut self, path: PathBuf) -> Self {
        self.mounted_at = Some(path);
        self
    }

    /// Requires a file system of this type at `at`.
    pub(crate) fn proof(mut self, at: &Path, fs: &str) -> Self {
        self.proof.push((at.into(), fs.into()));
        self
    }

    pub(crate) fn backing_dir(mut self, dir: &Path) -> Self {
        self.backing_dirs.push(dir.into());
        self
    }

    /// Sets a directory with the same files.
    pub(crate) fn other_side(mut self, dir: &Path) -> Self {
        self.info.other_side = Some(dir.into());
        self
    }

    /// Sets the backing directory in which its files have other names, and the same inode numbers.
    pub(crate) fn renamed_below(mut self, dir: &Path) -> Self {
        self.renamed_below = Some(dir.into());
        self
    }

    /// Sets the directories that are merged into one, the topmost first.
    pub(crate) fn stacked(mut self, dirs: [PathBuf; 2]) -> Self {
        self.stacked.extend(dirs);
        self
    }

    /// Sets a directory on the devices that hold the data.
    pub(crate) fn on_device_of(mut self, dir: &Path) -> Self {
        self.on_device_of = Some(dir.into());
        self
    }

    pub(crate) fn backing(mut self, file: &Path) -> Self {
        self.backing.push(file.into());
        self
    }

    /// Sets whether offsets on the file system's device are offsets in the backing image.
    pub(crate) fn plain(mut self, plain: bool) -> Self {
        self.plain = plain;
        self
    }

    pub(crate) fn helper(mut self, pid: u32) -> Self {
        self.info.helpers.push(pid);
        self
    }

    /// Adds a process that serves it by processes that it starts.
    pub(crate) fn helper_tree(self, pid: u32) -> Self {
        let tree = ProcessTree::of(Some(pid));
        self.helper_trees.borrow_mut().push(tree);
        self
    }

    pub(crate) fn note(mut self, name: &str, value: impl Into<String>) -> Self {
        self.notes.push((name.into(), value.into()));
        self
    }

    pub(crate) fn version(mut self, name: &str, value: impl Into<String>) -> Self {
        self.versions.push((name.into(), value.into()));
        self
    }

    pub(crate) fn read_only(mut self) -> Self {
        self.info.read_only = true;
        self
    }

    pub(crate) fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// Puts the probe at the far end of this network.
    pub(crate) fn linked(mut self, link: Link) -> Self {
        self.info.address = Some(link.addresses()[1].into());
        self.link = Some(link);
        self
    }

    pub(crate) fn refresher(
        mut self,
        how: impl FnMut(&[String]) -> Result<(), LayerError> + Send + 'static,
    ) -> Self {
        self.refresher = Some(Box::new(how));
        self
    }

    pub(crate) fn io(
        &self,
        what: &str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> LayerError + use<> {
        LayerError::io(&self.layer, what, path)
    }

    /// Copies the packaged files to where the probe looks for them, through the layer.
    pub(crate) fn package(&mut self) -> Result<(), LayerError> {
        if self.content == Content::Survived {
            return Ok(());
        }
        let to = self.info.dir.join(PACKAGED);
        let copied = tree::copy(&self.master, &to).and_then(|()| tree::see(&to));
        self.seen = copied.map_err(self.io("copy packaged files to", &to))?;
        // They must be on the disk before anything is measured, like those of an installed package.
        sync(&self.info.dir).map_err(self.io("sync", &self.info.dir))
    }

    fn proven(&self) -> Result<(), LayerError> {
        for (at, fs) in &self.proof {
            mounts::assert_mounted(&self.layer, at, fs)?;
        }
        Ok(())
    }

    /// Drops the cached pages of our own files, file by file.
    fn forget_files(&self) -> io::Result<()> {
        let mut forget = |path: &Path| {
            apart(None, || {
                Ok(fadvise(fd::open_now(path)?, 0, None, Advice::DontNeed)?)
            })
        };
        let below = self.backing_dirs.iter().chain(&self.stacked);
        for dir in [&self.info.dir].into_iter().chain(below) {
            tree::files(dir, &mut forget)?;
        }
        Ok(())
    }

    /// Files below `dir` with the inode numbers of these files.
    fn of_same_inode(&self, files: &[PathBuf], dir: &Path) -> io::Result<Vec<PathBuf>> {
        let number = |file: &PathBuf| Some(self.info.dir.join(file).metadata().ok()?.ino());
        let wanted: HashSet<u64> = files.iter().filter_map(number).collect();
        let mut found = Vec::new();
        tree::files(dir, &mut |path| {
            if wanted.contains(&path.symlink_metadata()?.ino()) {
                found.push(path.into());
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// Writes back all dirty data of the file system of `path`.
pub(crate) fn sync(path: &Path) -> io::Result<()> {
    Ok(syncfs(fd::open_now(path)?)?)
}

/// Starts `EXE probe` on this host, in the network that `enter` chooses.
pub(crate) fn start_probe(
    layer: &str,
    exe: &Path,
    enter: impl FnOnce(&mut Command),
) -> Result<Wire, LayerError> {
    let mut command = child::command(exe);
    command.arg("probe");
    enter(&mut command);
    let mut process =
        Process::start(&mut command).map_err(LayerError::io(layer, "start the probe", exe))?;
    let child = process.child();
    match (child.stdin.take(), child.stdout.take()) {
        (Some(stdin), Some(stdout)) => Ok(Wire {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            control: Box::new(process),
        }),
        _ => Err(LayerError::io(layer, "start the probe", exe)(
            io::ErrorKind::BrokenPipe.into(),
        )),
    }
}

impl Place for HostPlace {
    fn info(&self) -> &PlaceInfo {
        &self.info
    }

    fn start(&mut self, end: End) -> Result<Wire, LayerError> {
        if end == End::Far {
            self.proven()?;
        }
        let link = self.link.as_ref();
        start_probe(&self.layer, &self.exe, |command| {
            // It only looks at what survived.
            if self.content == Content::Survived {
                command.arg(UNTIMED);
            }
            link.inspect(|link| match end {
                End::Far => link.enter_far(command),
                End::Near => link.enter_near(command),
            });
        })
    }

    /// If no namespace can be made, this is the loopback of this host.
    fn link(&mut self) -> Result<[IpAddr; 2], LayerError> {
        if self.link.is_none() {
            self.link = Link::loopback().ok();
        }
        let Some(link) = &self.link else {
            let note = ("network".into(), "loopback of this host".into());
            self.notes.push(note);
            return Ok([Ipv4Addr::LOCALHOST.into(); 2]);
        };
        Ok(link.addresses().map(IpAddr::V4))
    }

    fn facts(&self) -> Result<Facts, LayerError> {
        self.proven()?;
        let below = |path: &Path| self.io("find the mounts of", path);
        let dir = self.mounted_at.as_ref().unwrap_or(&self.info.dir);
        let mut facts = mounts::facts_of(dir).map_err(below(dir))?;
        let data = self.backing_dirs.iter().chain(&self.backing);
        for path in data.chain(&self.on_device_of) {
            mounts::add_facts(path, &mut facts, 0).map_err(below(path))?;
        }
        for path in &self.backing {
            if !facts.backing.contains(path) {
                facts.backing.push(path.clone());
            }
        }
        devices::mark_own(&mut facts, &self.backing);
        facts.notes.extend(self.notes.iter().cloned());
        // The probe is a child of this process.
        let filters = process::seccomp_filters();
        if filters > 0 {
            let note = (SECCOMP_FILTERS.into(), filters.to_string());
            facts.notes.extend([note]);
        }
        if let Some(link) = &self.link {
            let notes = link.notes();
            let failed = self.io("inspect the network of", &self.info.dir);
            facts.notes.extend(notes.map_err(failed)?);
        }
        facts.versions.extend(self.versions.iter().cloned());
        let kernel = rustix::system::uname();
        let release = kernel.release().to_string_lossy().into_owned();
        facts.versions.insert("kernel".into(), release);
        Ok(facts)
    }

    fn backing_extents(&self, files: &[PathBuf]) -> Vec<BackingExtents> {
        let whole = |path| BackingExtents { path, ranges: None };
        let mut found = Vec::new();
        if let Some(dir) = &self.renamed_below {
            let same = self.of_same_inode(files, dir).unwrap_or_default();
            found.extend(same.into_iter().map(whole));
        }
        for file in files {
            let there = |dir: &PathBuf| Some(dir.join(file)).filter(|path| path.exists());
            let stacked = self.stacked.iter().find_map(there);
            found.extend(
                self.backing_dirs
                    .iter()
                    .filter_map(there)
                    .chain(stacked)
                    .map(whole),
            );
        }
        let extents = || {
            let each = files
                .iter()
                .map(|f| extents::of(&File::open(self.info.dir.join(f)).ok()?));
            let all: Vec<_> = each.collect::<Option<_>>()?;
            Some(all.concat()).filter(|ranges| !ranges.is_empty())
        };
        let ranges = if self.plain { extents() } else { None };
        found.extend(self.backing.iter().map(|path| BackingExtents {
            path: path.clone(),
            ranges: ranges.clone(),
        }));
        found
    }

    fn drop_caches(&mut self, kernel: KernelCaches) -> Result<DroppedCaches, LayerError> {
        let mut cooled = DroppedCaches::default();
        // From the top down, because data that a layer writes back enters the cache of the one
        // below it. Dirty pages cannot be dropped.
        for path in [&self.info.dir]
            .into_iter()
            .chain(&self.backing_dirs)
            .chain(&self.on_device_of)
            .chain(&self.backing)
        {
            sync(path).map_err(self.io("sync", path))?;
        }
        cooled.how.push("syncfs".into());
        if !self.backing.is_empty() {
            for path in &self.backing {
                let forget = || {
                    fadvise(fd::open_now(path)?, 0, None, Advice::DontNeed).map_err(io::Error::from)
                };
                forget().map_err(self.io("drop cached pages of", path))?;
            }
            cooled.how.push("fadvise".into());
        }
        if kernel.drop_or_promise(&mut cooled) {
            cooled.complete = true;
        } else {
            self.forget_files()
                .map_err(self.io("drop cached pages below", &self.info.dir))?;
            cooled.how.push("fadvise".into());
        }
        cooled.how.dedup();
        if self.in_memory {
            cooled.how.push("nothing: the files live in memory".into());
            cooled.complete = false;
        }
        Ok(cooled)
    }

    fn refresh(&mut self, names: &[String]) -> Result<(), LayerError> {
        if self.info.read_only {
            return Ok(());
        }
        if let Some(refresher) = &mut self.refresher {
            return refresher(names);
        }
        let to = self.info.dir.join(PACKAGED);
        let failed = self.io("put back packaged files in", &to);
        let restored = tree::restore(&self.master, &to, names, &self.seen);
        restored
            .and_then(|()| tree::see_again(&to, names, &mut self.seen))
            .map_err(failed)
    }

    fn helper_cpu(&self) -> Result<CpuTime, LayerError> {
        let mut trees = self.helper_trees.borrow_mut();
        let mut ns = trees.iter_mut().map(ProcessTree::cpu_ns).sum();
        for pid in &self.info.helpers {
            ns +=
                child::cpu_ns(*pid).map_err(self.io("read the CPU time of", Path::new("/proc")))?;
        }
        Ok(CpuTime { ns, within_ns: 0 })
    }
}
