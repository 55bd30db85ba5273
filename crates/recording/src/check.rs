//! What must hold for a recording before it is replayed. It may come from anybody.

use std::collections::HashMap;

use crate::{
    Call, CallKind, Entry, EntryKind, OPEN_FLAGS, Pending, Recording, call::open_flag, limits,
};

/// Largest value of `mode` of fallocate(2): all of its flags.
const FALLOCATE: i64 = 0x7f;
/// Bytes that a symbolic link may take.
const BLOCK: u64 = 4096;
/// Flags of renameat2(2): no replacement, exchange.
const RENAME: i64 = 3;
/// `AT_SYMLINK_NOFOLLOW`.
pub const NO_FOLLOW: i64 = 0x100;
/// `AT_SYMLINK_FOLLOW`.
pub const FOLLOW: i64 = 0x400;
/// Flags of statx(2): not following links, the directory itself, no automount, how it synchronises.
const STATX: i64 = 0x7900;

impl Recording {
    /// Why this recording is refused.
    ///
    /// # Errors
    /// Says what is wrong, with the number of the entry, name or call.
    pub fn check(&self) -> Result<(), String> {
        check_tree(&self.tree)?;
        for (number, name) in self.names.iter().enumerate() {
            if let Some(why) = name.refused() {
                return Err(format!("name {number}: {why}"));
            }
        }
        let head = &self.head;
        let tasks = u64::from(head.tasks);
        if tasks == 0 || tasks > limits::TASKS {
            return Err(format!(
                "it has {tasks} tasks, and 1 to {} are replayed",
                limits::TASKS
            ));
        }
        if u64::from(head.files) > limits::CALLS {
            return Err(format!(
                "it has {} open files, more than {}",
                head.files,
                limits::CALLS
            ));
        }
        let mut counts = vec![0u32; tasks as usize];
        for (number, call) in self.calls.iter().enumerate() {
            self.check_call(call)
                .map_err(|why| format!("call {number} (`{}`): {why}", call.kind.id()))?;
            counts[call.task as usize] += 1;
        }
        self.check_order(&counts)?;
        self.check_sums()
    }

    fn check_call(&self, call: &Call) -> Result<(), String> {
        let (head, shape) = (&self.head, call.kind.shape());
        if call.task >= head.tasks {
            return Err(format!("task {} of {}", call.task, head.tasks));
        }
        let parts = [
            ("name", shape.path, call.path, self.names.len()),
            ("second name", shape.path2, call.path2, self.names.len()),
            ("open file", shape.file, call.file, head.files as usize),
            (
                "second open file",
                shape.file2,
                call.file2,
                head.files as usize,
            ),
            ("directory", false, call.dir, head.files as usize),
            ("second directory", false, call.dir2, head.files as usize),
        ];
        for (what, needed, number, count) in parts {
            match number {
                None if needed => return Err(format!("it has no {what}")),
                Some(number) if number as usize >= count => {
                    return Err(format!("its {what} is number {number} of {count}"));
                }
                _ => {}
            }
        }
        if call.kind == CallKind::Statx && call.path.is_none() && call.file.is_none() {
            return Err("it has no name".into());
        }
        if call.kind.has_no_at() && call.dir.is_some() {
            return Err("its name is relative to an open directory".into());
        }
        if let (true, Some(name)) = (call.kind.is_xattr(), call.path2) {
            let name = &self.names[name as usize].0;
            if !call.kind.reads_xattr() && !name.starts_with(b"user.") {
                return Err("it sets an attribute that is not a user's".into());
            }
        }
        check_numbers(call)
    }

    fn check_order(&self, counts: &[u32]) -> Result<(), String> {
        let waits: u64 = self.calls.iter().map(|call| call.waits.len() as u64).sum();
        if waits > limits::WAITS {
            return Err(format!("its calls wait more than {} times", limits::WAITS));
        }
        for (number, call) in self.calls.iter().enumerate() {
            if call.waits.len() > counts.len() {
                return Err(format!(
                    "call {number} waits for {} tasks",
                    call.waits.len()
                ));
            }
            for (task, count) in &call.waits {
                if counts.get(*task as usize).is_none_or(|all| count > all) {
                    return Err(format!(
                        "call {number} waits for call {count} of task {task}, which does not exist"
                    ));
                }
            }
        }
        let cycle = Pending::new(&self.calls, counts.len()).cycle(&self.calls);
        cycle.map_or(Ok(()), |number| {
            Err(format!(
                "call {number} waits for itself, through calls of other tasks"
            ))
        })
    }

    /// Memory and room on the disk.
    fn check_sums(&self) -> Result<(), String> {
        let buffers = self.buffers();
        // Each task's own, and the data that all of them write.
        let data = buffers.iter().max().copied().unwrap_or(0);
        let memory = buffers.iter().chain(&self.lists()).sum::<u64>() + data;
        if memory > limits::BUFFERS {
            return Err(format!(
                "its tasks need buffers of {memory} bytes, more than {}",
                limits::BUFFERS
            ));
        }
        let written = self.written();
        if written > limits::WRITTEN {
            return Err(format!(
                "it writes {written} bytes, more than {}",
                limits::WRITTEN
            ));
        }
        Ok(())
    }

    /// Bytes of each task's largest buffer for data.
    pub fn buffers(&self) -> Vec<u64> {
        self.largest(Call::buffer)
    }

    /// Bytes of each task's largest buffer for entries of directories.
    pub fn lists(&self) -> Vec<u64> {
        self.largest(|call| match call.kind {
            CallKind::List => call.a.max(0) as u64,
            _ => 0,
        })
    }

    fn largest(&self, of: impl Fn(&Call) -> u64) -> Vec<u64> {
        let mut largest = vec![0; self.head.tasks as usize];
        for call in &self.calls {
            let own = &mut largest[call.task as usize];
            *own = of(call).max(*own);
        }
        largest
    }

    /// The most bytes that its calls can put on a disk.
    pub fn written(&self) -> u64 {
        use CallKind as K;
        let each = self.calls.iter().map(|call| match call.kind {
            K::Write
            | K::Pwrite
            | K::CopyRange
            | K::SendFile
            | K::Setxattr
            | K::Lsetxattr
            | K::Fsetxattr => call.a.max(0) as u64,
            K::Fallocate => call.c.max(0) as u64,
            // A long target has a block of its own.
            K::Symlink => BLOCK,
            _ => 0,
        });
        each.fold(0, u64::saturating_add)
    }

    /// Bytes of the files of its tree. Another name of a file takes none.
    pub fn tree_bytes(&self) -> u64 {
        let files = self.tree.iter().filter(|entry| entry.same.is_none());
        files.map(Entry::stored).sum()
    }

    /// How many of its calls make a file, a directory or a link, if they succeed.
    pub fn made(&self) -> u64 {
        self.calls.iter().filter(|call| call.makes()).count() as u64
    }
}

/// Checks the numbers `a`, `b` and `c` of a call.
fn check_numbers(call: &Call) -> Result<(), String> {
    use CallKind as K;
    let (a, b, c) = (call.a, call.b, call.c);
    let range = |what: &str, value: i64, most: i64| {
        let within = (0..=most).contains(&value);
        within
            .then_some(())
            .ok_or_else(|| format!("its {what} is {value}, and 0 to {most} are replayed"))
    };
    let bytes = |value| range("size", value, limits::CALL_BYTES.cast_signed());
    let at = |value| range("offset", value, limits::WRITTEN.cast_signed());
    let mode = |value| range("mode", value, i64::from(limits::MODE));
    match call.kind {
        K::Open => {
            let all: u32 = OPEN_FLAGS.iter().map(|flag| flag.bit).sum();
            range("flag word", a, i64::from(all))?;
            let both = open_flag("O_CREAT") | open_flag("O_TMPFILE");
            if b != 0 && a & i64::from(both) == 0 {
                return Err("it has permissions and makes no file".into());
            }
            mode(b)
        }
        K::Read | K::Write | K::List => bytes(a),
        K::Pread | K::Pwrite => bytes(a).and_then(|()| at(b)),
        K::Seek => range("start", b, 4).and_then(|()| {
            let far = a.unsigned_abs() > limits::WRITTEN;
            if far { at(a) } else { Ok(()) }
        }),
        K::Statx if a & !STATX != 0 => Err(format!("its flags are {a:#x}")),
        K::Statx => range("mask", b, 0xffff),
        K::Access => range("mode", a, 7),
        K::Mkdir | K::Mknod | K::Chmod | K::Fchmod => mode(a),
        K::Rename => range("flag word", a, RENAME),
        K::Link if ![0, FOLLOW].contains(&a) => Err(format!("its flags are {a:#x}")),
        K::Chown | K::Utimens if ![0, NO_FOLLOW].contains(&a) => {
            Err(format!("its flags are {a:#x}"))
        }
        K::Map if a == 0 => Err("it maps nothing".into()),
        K::Truncate | K::Ftruncate | K::Map | K::Touch => at(a),
        K::Fallocate => range("mode", a, FALLOCATE)
            .and_then(|()| at(b))
            .and_then(|()| at(c)),
        K::SyncRange => at(a)
            .and_then(|()| at(b))
            .and_then(|()| range("flag word", c, 7)),
        K::CopyRange => at(a)
            .and_then(|()| at(b.max(0)))
            .and_then(|()| at(c.max(0))),
        K::SendFile => at(a).and_then(|()| at(b.max(0))),
        K::Lock => range("kind", a, 2)
            .and_then(|()| at(b))
            .and_then(|()| at(c)),
        K::Flock => range("operation", a, 15),
        K::Fadvise => at(a)
            .and_then(|()| at(b))
            .and_then(|()| range("advice", c, 5)),
        kind if kind.is_xattr() => {
            range("size", a, 64 << 10).and_then(|()| range("flag word", b, 3))
        }
        _ => Ok(()),
    }
}

fn check_tree(tree: &[Entry]) -> Result<(), String> {
    let mut kinds: HashMap<&[u8], EntryKind> = HashMap::new();
    let mut bytes = 0u64;
    for (number, entry) in tree.iter().enumerate() {
        let wrong = |why: String| Err(format!("entry {number}: {why}"));
        if let Some(why) = entry.path.refused() {
            return wrong(why);
        }
        if entry.path.is_root() {
            return wrong("it is the directory itself".into());
        }
        let parent = entry.path.parent();
        if !parent.is_root() && kinds.get(parent.0.as_slice()) != Some(&EntryKind::Directory) {
            return wrong(format!(
                "{} comes before its directory",
                entry.path.escaped()
            ));
        }
        if kinds.insert(&entry.path.0, entry.kind).is_some() {
            return wrong(format!("{} is there twice", entry.path.escaped()));
        }
        if entry.mode > limits::MODE {
            return wrong(format!(
                "its permissions are {:o}, more than {:o}",
                entry.mode,
                limits::MODE
            ));
        }
        match (&entry.target, entry.kind) {
            (Some(target), EntryKind::Link) => {
                if let Some(why) = target.refused() {
                    return wrong(why);
                }
            }
            (None, EntryKind::Link) => return wrong("a link without a target".into()),
            (Some(_), _) => return wrong("a target, and no link".into()),
            (None, _) => {}
        }
        if let Some(same) = entry.same {
            let other = tree[..number].get(same as usize);
            let fits = other.is_some_and(|o| o.kind == EntryKind::File && o.same.is_none());
            if !fits || entry.kind != EntryKind::File {
                return wrong(format!(
                    "it is another name of entry {same}, which is not a file before it"
                ));
            }
        }
        if entry.kind != EntryKind::File && entry.size > 0 {
            return wrong("it has a size, and is no file".into());
        }
        if !holes_fit(entry) {
            return wrong(format!(
                "its holes are not in order, not in it, or more than {}",
                limits::HOLES
            ));
        }
        // Another name of a file takes no room.
        if entry.same.is_none() {
            // With its holes: not every file system leaves them out.
            bytes = bytes.saturating_add(entry.size);
        }
        if bytes > limits::TREE_BYTES {
            return Err(format!(
                "its tree has more than {} bytes",
                limits::TREE_BYTES
            ));
        }
    }
    Ok(())
}

/// Whether the holes of an entry are parts of it, one after the other.
fn holes_fit(entry: &Entry) -> bool {
    let mut end = 0;
    let mut each = entry.holes.iter();
    entry.holes.len() <= limits::HOLES
        && each.all(|&(at, length)| {
            let fits = at >= end && length > 0;
            end = at.saturating_add(length);
            fits && end <= entry.size
        })
}
