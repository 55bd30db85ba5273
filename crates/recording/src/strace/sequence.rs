//! Calls in their order, which is that of what they share: names, open files, entries of directories, and waits of
//! tasks for each other. Times play no part in it: of 1,354 pairs of calls of `make -j2` that followed each other
//! in two tasks, 127 share something.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    rc::Rc,
};

use super::{
    TraceOf,
    by_path::ByPath,
    faults::{Faults, Mapped},
    gaps::Gaps,
    hard_links::HardLinks,
    infer::Inferred,
    lex::Ended,
    paths::{Links, below, parent},
};
use crate::{Call, Name, limits};

/// What is left out: names that a log does not have.
pub const CUT: &str = "names that strace has cut: use -s 4096";
/// What is left out of a chown.
pub const OWNERS: &str = "owners: chown is replayed without a change";

/// Something that calls share. Paths are absolute, and numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shared {
    /// What a name stands for.
    Name(u32),
    /// An open file.
    File(u32),
    /// The entries of a directory.
    Entries(u32),
    /// The locks of a file.
    Locks(u32),
    /// A file that has several names.
    Inode(u32),
}

/// How a call uses something. Uses of one kind may overlap, except exclusive ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Reads,
    /// Adds or removes an entry: other entries may change meanwhile.
    Adds,
    Exclusive,
}

/// How many of its calls each task must have ended.
type After = BTreeMap<u32, u32>;

/// Uses of something so far: the current ones, and those that they come after.
#[derive(Default)]
struct Uses {
    current: After,
    previous: After,
    how: Option<Use>,
}

/// A descriptor, or a mapping: the number of its open file, and whether exec ends it.
#[derive(Debug, Clone, Copy)]
pub struct Descriptor {
    pub file: u32,
    pub closed_by_exec: bool,
    pub is_mapping: bool,
}

impl Descriptor {
    /// How many of its kind its open file has.
    pub fn count(self, all: &mut [[u32; 2]]) -> &mut u32 {
        &mut all[self.file as usize][usize::from(self.is_mapping)]
    }
}

/// Descriptors by their numbers, and mappings by their addresses below 0: both are copied by fork, and shared by threads.
pub type Table = Rc<RefCell<BTreeMap<i64, Descriptor>>>;

/// A thread or process of the program.
pub struct Task {
    /// Its number in the recording, once it has a call.
    number: Option<u32>,
    pub table: Table,
    pub cwd: Vec<u8>,
    /// Its process.
    pub group: u32,
    need: After,
    /// What its exec came after.
    pub executed: Option<After>,
}

/// A clone whose child has not been seen.
struct Birth {
    parent: u32,
    shares: bool,
    thread: bool,
    after: After,
}

pub struct Sequence {
    pub root: Vec<u8>,
    start: Vec<u8>,
    pub links: Links,
    pub hard_links: HardLinks,
    pub calls: Vec<Call>,
    pub names: Vec<Name>,
    name_numbers: HashMap<Vec<u8>, u32>,
    paths: HashMap<Vec<u8>, u32>,
    /// The number of the directory of each path, up to the recorded one.
    parents: Vec<Option<u32>>,
    pub live: HashMap<u32, Task>,
    births: Vec<Birth>,
    /// Calls of each task by its number, and what it has waited for.
    counts: Vec<u32>,
    known: Vec<After>,
    /// Numbers of tasks that have ended.
    free: BTreeSet<u32>,
    uses: HashMap<Shared, Uses>,
    /// Absolute path of each file that is open.
    pub file_paths: Vec<Option<Vec<u8>>>,
    /// The open files at each path.
    pub open_files: ByPath<BTreeSet<u32>>,
    /// Bytes of names and paths.
    pub bytes: u64,
    /// How many descriptors and mappings each open file has.
    pub references: Vec<[u32; 2]>,
    /// Page faults that are to come, if they were recorded.
    pub faults: Option<Faults>,
    /// Open files that are mapped.
    pub mapped: HashMap<u32, Mapped>,
    /// Open files that had a lock, with the number of the path at that time.
    pub locked: HashMap<u32, u32>,
    /// Names of the attributes that the program has set, by the paths of files.
    pub attributes: ByPath<HashSet<Vec<u8>>>,
    /// Directories whose entries were read, and how much the last read returned.
    pub listed: HashMap<u32, i64>,
    /// What a waiting task waits for: the end of a process, the last write to a pipe, the last wake of a futex.
    pub exits: HashMap<u32, After>,
    pub last_exit: After,
    pub writes: HashMap<String, After>,
    pub last_write: After,
    pub wakes: HashMap<(u32, String), After>,
    pub left_out: BTreeMap<String, u64>,
    pub gaps: Gaps,
    pub inferred: Option<Inferred>,
    /// Where open files are, as far as reads and seeks show it. Only to infer the tree.
    pub offsets: HashMap<u32, u64>,
}

impl Sequence {
    pub fn new(of: &TraceOf, links: Links, infer: bool) -> Self {
        Self {
            root: of.root.clone(),
            start: of.cwd.clone(),
            links,
            hard_links: HardLinks::of_tree(of.tree.as_deref().unwrap_or_default(), &of.root),
            calls: Vec::new(),
            names: Vec::new(),
            name_numbers: HashMap::new(),
            paths: HashMap::new(),
            parents: Vec::new(),
            live: HashMap::new(),
            births: Vec::new(),
            counts: Vec::new(),
            known: Vec::new(),
            free: BTreeSet::new(),
            uses: HashMap::new(),
            file_paths: Vec::new(),
            open_files: ByPath::default(),
            bytes: 0,
            references: Vec::new(),
            faults: of.faults.clone(),
            mapped: HashMap::new(),
            locked: HashMap::new(),
            attributes: ByPath::default(),
            listed: HashMap::new(),
            exits: HashMap::new(),
            last_exit: After::new(),
            writes: HashMap::new(),
            last_write: After::new(),
            wakes: HashMap::new(),
            left_out: BTreeMap::new(),
            gaps: Gaps::default(),
            inferred: infer.then(Inferred::default),
            offsets: HashMap::new(),
        }
    }

    /// How many tasks have calls.
    pub fn tasks(&self) -> u32 {
        self.counts.len() as u32
    }

    /// How many open files there were.
    pub fn files(&self) -> u32 {
        self.file_paths.len() as u32
    }

    /// The tree before, as far as the calls show it.
    pub fn inferred(&mut self) -> Result<Vec<crate::Entry>, String> {
        let inferred = self.inferred.take().unwrap_or_default();
        inferred.tree(&self.root)
    }

    /// Whether it takes no more memory and time than the recording of any real program.
    pub fn check(&self) -> Result<(), String> {
        let inferred = self.inferred.as_ref();
        let bytes = self.bytes
            + self.open_files.bytes
            + self.attributes.bytes
            + self.links.bytes()
            + self.hard_links.bytes()
            + inferred.map_or(0, Inferred::bytes);
        let moved = self.open_files.moved
            + self.attributes.moved
            + self.links.moved()
            + self.hard_links.moved()
            + inferred.map_or(0, Inferred::moved);
        for (what, count, most) in [
            (
                "calls on files of the directory",
                self.calls.len() as u64,
                limits::CALLS,
            ),
            ("bytes of names", bytes, limits::LOG_NAMES),
            ("names that renames move", moved, limits::MOVED),
        ] {
            if count > most {
                return Err(format!("it has more than {most} {what}"));
            }
        }
        Ok(())
    }

    /// Counts something that is not recorded.
    pub fn leave(&mut self, what: &str) {
        if let Some(count) = self.left_out.get_mut(what) {
            *count += 1;
        } else if self.left_out.len() < limits::LEFT_OUT {
            self.left_out.insert(what.to_owned(), 1);
        }
    }

    /// Counts a call on a file of the tree that is not known. A log may have names of any length.
    pub fn leave_call(&mut self, name: &str) {
        const MOST: usize = 40;
        let name: String = name.chars().take(MOST).collect();
        self.leave(&format!("{name} on a file of the tree"));
    }

    /// The number of a name.
    pub fn name(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.name_numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.bytes += name.len() as u64;
        self.names.push(Name(name.to_vec()));
        self.name_numbers.insert(name.to_vec(), number);
        number
    }

    /// The number of the name of an attribute: never that of a file's name.
    pub fn attribute_name(&mut self, name: &[u8]) -> u32 {
        let key = [b"\0", name].concat();
        let next = self.names.len() as u32;
        let number = *self.name_numbers.entry(key).or_insert(next);
        if number == next {
            self.names.push(Name(name.to_vec()));
        }
        number
    }

    /// The number of an absolute path.
    pub fn path(&mut self, path: &[u8]) -> u32 {
        if let Some(number) = self.paths.get(path) {
            return *number;
        }
        // Not recursive: a path may have thousands of components.
        let (mut new, mut up) = (vec![path], parent(path));
        while below(&self.root, up).is_some() && up.len() > 1 && !self.paths.contains_key(up) {
            new.push(up);
            up = parent(up);
        }
        for path in new.into_iter().rev() {
            let next = self.paths.len() as u32;
            self.bytes += path.len() as u64;
            self.parents.push(self.paths.get(parent(path)).copied());
            self.paths.insert(path.to_vec(), next);
        }
        self.paths.len() as u32 - 1
    }

    /// The numbers of the directories above a path.
    pub fn above(&self, path: u32) -> impl Iterator<Item = u32> {
        /// Deeper trees are those of nobody.
        const MOST: usize = 100;
        let up = |at: &u32| self.parents[*at as usize];
        std::iter::successors(up(&path), up).take(MOST)
    }

    /// The task of a number that strace shows. It is a child of the oldest clone whose child was not seen.
    pub fn task(&mut self, id: u32) -> &mut Task {
        let task = self.live.remove(&id).unwrap_or_else(|| {
            let birth = (!self.births.is_empty()).then(|| self.births.remove(0));
            self.child(id, birth)
        });
        self.live.entry(id).or_insert(task)
    }

    fn child(&mut self, id: u32, birth: Option<Birth>) -> Task {
        let parent =
            birth.and_then(|birth| self.live.get(&birth.parent).map(|parent| (birth, parent)));
        let Some((birth, parent)) = parent else {
            return Task {
                number: None,
                table: Table::default(),
                cwd: self.start.clone(),
                group: id,
                need: After::new(),
                executed: None,
            };
        };
        let table = if birth.shares {
            Rc::clone(&parent.table)
        } else {
            let copy = parent.table.borrow().clone();
            for descriptor in copy.values() {
                *descriptor.count(&mut self.references) += 1;
            }
            Rc::new(RefCell::new(copy))
        };
        Task {
            number: None,
            table,
            cwd: parent.cwd.clone(),
            group: if birth.thread { parent.group } else { id },
            need: birth.after,
            executed: None,
        }
    }

    /// A task makes another one. `child`: its number, once it is known.
    pub fn bear(&mut self, parent: u32, shares: bool, thread: bool, child: Option<u32>) {
        let after = self.mark(parent);
        let birth = Birth {
            parent,
            shares,
            thread,
            after,
        };
        match child {
            Some(child) if !self.live.contains_key(&child) => {
                let task = self.child(child, Some(birth));
                self.live.insert(child, task);
            }
            Some(_) => {}
            None => self.births.push(birth),
        }
    }

    /// Removes the birth that a clone announced and that gave no child.
    pub fn stillborn(&mut self, parent: u32) {
        if let Some(at) = self.births.iter().rposition(|birth| birth.parent == parent) {
            self.births.remove(at);
        }
    }

    /// What a task has done so far: who waits for it comes after that.
    pub fn mark(&mut self, id: u32) -> After {
        let task = self.task(id);
        let (mut after, number) = (task.need.clone(), task.number);
        if let Some(number) = number {
            let own = self.counts[number as usize];
            if own > 0 {
                after.insert(number, own);
            }
        }
        after
    }

    /// The next call of a task comes after these.
    pub fn wait(&mut self, id: u32, after: Option<&After>) {
        let Some(after) = after else { return };
        let need = &mut self.task(id).need;
        for (task, count) in after {
            let known = need.entry(*task).or_default();
            *known = (*known).max(*count);
        }
    }

    /// The number of a task in the recording. The number of one that has ended is given again if there are too many:
    /// the new task is then later than the old one, as it was.
    fn number(&mut self, id: u32) -> Result<u32, String> {
        if let Some(number) = self.task(id).number {
            return Ok(number);
        }
        let next = self.counts.len() as u32;
        let number = if u64::from(next) < limits::TASKS {
            self.counts.push(0);
            self.known.push(After::new());
            next
        } else {
            self.free.pop_first().ok_or_else(|| {
                format!("more than {} of its tasks use files at once", limits::TASKS)
            })?
        };
        self.task(id).number = Some(number);
        Ok(number)
    }

    /// Adds a call, after everything that shares something with it.
    pub fn emit(
        &mut self,
        id: u32,
        mut call: Call,
        shared: &[(Shared, Use)],
    ) -> Result<(), String> {
        let task = self.number(id)?;
        let mut after = std::mem::take(&mut self.task(id).need);
        self.counts[task as usize] += 1;
        let own = self.counts[task as usize];
        // A name that is relative to an open directory needs it until the call has ended.
        let dirs = [call.dir, call.dir2].map(|dir| Some((Shared::File(dir?), Use::Reads)));
        for (what, how) in shared.iter().chain(dirs.iter().flatten()) {
            let uses = self.uses.entry(*what).or_default();
            if uses
                .how
                .is_some_and(|before| before != *how || *how == Use::Exclusive)
            {
                uses.previous = std::mem::take(&mut uses.current);
            }
            uses.how = Some(*how);
            for (other, count) in &uses.previous {
                let known = after.entry(*other).or_default();
                *known = (*known).max(*count);
            }
            uses.current.insert(task, own);
        }
        let known = &mut self.known[task as usize];
        after.retain(|other, count| *other != task && known.get(other).is_none_or(|n| n < count));
        known.extend(after.iter().map(|(other, count)| (*other, *count)));
        call.task = task;
        call.waits = after.into_iter().collect();
        self.gaps.call(id);
        self.calls.push(call);
        Ok(())
    }

    /// A task has ended. The last of a process closes its files.
    pub fn exited(&mut self, id: u32) -> Result<(), String> {
        if !self.live.contains_key(&id) {
            return Ok(());
        }
        if Rc::strong_count(&self.task(id).table) == 1 {
            let numbers: Vec<i64> = self.task(id).table.borrow().keys().copied().collect();
            numbers
                .into_iter()
                .try_for_each(|number| self.close(id, number))?;
        }
        let after = self.mark(id);
        self.last_exit.clone_from(&after);
        self.exits.insert(id, after);
        if let Some(number) = self.live.remove(&id).and_then(|task| task.number) {
            self.free.insert(number);
        }
        Ok(())
    }

    /// A call has begun and will end later.
    pub fn begun(&mut self, id: u32, text: &str) -> Result<(), String> {
        self.task(id);
        if text.starts_with("close(") {
            return self.ended(id, &format!("{text}) = 0"), false);
        }
        let makes = ["clone", "fork", "vfork"]
            .iter()
            .any(|name| text.starts_with(name));
        if makes {
            self.bear(
                id,
                text.contains("CLONE_FILES"),
                text.contains("CLONE_THREAD"),
                None,
            );
        }
        Ok(())
    }

    /// A call has ended. `resumed`: its begin was a line of its own.
    pub fn ended(&mut self, id: u32, text: &str, resumed: bool) -> Result<(), String> {
        self.task(id);
        match Ended::read(text) {
            Some(call) => self.call(id, &call, resumed),
            None => Ok(()),
        }
    }
}
