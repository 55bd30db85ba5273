//! Page faults on mapped files, which strace does not show: the trace of the kernel's tracepoints `filemap:mm_filemap_fault`
//! and `filemap:mm_filemap_map_pages`. They name the inode and the offset, and no mapping.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    io::{self, BufRead},
};

use crate::limits;

/// What is left out where page faults are not recorded.
pub const MAPPINGS: &str = "mappings: the pages that are read through them";

/// What the kernel's trace of page faults is compared with.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceClock {
    /// How far its clock is ahead of strace's, us.
    pub ahead_us: i64,
    /// Major and minor number of the tree's device; `None` if tracepoints show another one.
    pub device: Option<(u32, u32)>,
}

/// Page faults of a program on files of the tree, in the order of time.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Inode numbers that each name had, relative to the tree: before the program and after it.
    inodes: HashMap<Vec<u8>, Vec<u64>>,
    all: VecDeque<Fault>,
    /// How many are missing, also of other files.
    pub(super) lost: u64,
}

/// A page fault of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub task: u32,
    /// us since 1970.
    pub at: u64,
    pub inode: u64,
    /// Where the page is in the file, or the first of those that were mapped around it, bytes.
    pub offset: u64,
}

/// An open file that is mapped.
pub struct Mapped {
    /// The number of the call.
    pub call: usize,
    pub inodes: Vec<u64>,
}

impl Faults {
    /// Those of the text of a trace (`tracing/trace`) on files of these names and inode numbers.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub fn read(
        trace: impl BufRead,
        clock: TraceClock,
        files: impl IntoIterator<Item = (Vec<u8>, u64)>,
    ) -> io::Result<Self> {
        let mut found = Self::default();
        for (name, inode) in files {
            let inodes = found.inodes.entry(name).or_default();
            if !inodes.contains(&inode) {
                inodes.push(inode);
            }
        }
        let known: HashSet<u64> = found.inodes.values().flatten().copied().collect();
        for line in trace.split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            found.lost = found.lost.saturating_add(overwritten(&line));
            let Some(fault) = fault(&line, clock).filter(|fault| known.contains(&fault.inode))
            else {
                continue;
            };
            if found.all.len() < limits::FAULTS {
                found.all.push_back(fault);
            } else {
                found.lost = found.lost.saturating_add(1);
            }
        }
        found.all.make_contiguous().sort_by_key(|fault| fault.at);
        Ok(found)
    }

    /// Inode numbers of a name in the tree.
    pub fn inodes(&self, name: &[u8]) -> Vec<u64> {
        self.inodes.get(name).cloned().unwrap_or_default()
    }

    /// The next one, if it is not later than this, us since 1970.
    pub fn next(&mut self, until: u64) -> Option<Fault> {
        self.all.front().filter(|fault| fault.at <= until)?;
        self.all.pop_front()
    }
}

/// How many events the head of a trace says were overwritten by later ones: `# entries-in-buffer/entries-written: 3/5`.
fn overwritten(line: &str) -> u64 {
    let counts = line.strip_prefix("# entries-in-buffer/entries-written: ");
    let counts = counts.and_then(|counts| counts.split_whitespace().next()?.split_once('/'));
    let counts = counts.and_then(|(kept, all)| Some((kept.parse().ok()?, all.parse().ok()?)));
    counts.map_or(0, |(kept, all): (u64, u64)| all.saturating_sub(kept))
}

/// The task and the time (us, of the trace's clock) of a line of a trace, and its event: `NAME-7 [001] ..... 12.000345: EVENT`.
/// The name is the program's choice.
pub fn line_of_trace<'a>(line: &'a str, event: &str) -> Option<(u32, u64, &'a str)> {
    let at = line.rfind(event)?;
    let before = line[..at].trim_end().strip_suffix(':')?;
    let (rest, time) = before.rsplit_once(' ')?;
    let (seconds, micros) = time.split_once('.')?;
    (micros.len() == 6).then_some(())?;
    let seconds: u64 = seconds.parse().ok()?;
    let time = seconds
        .checked_mul(1_000_000)?
        .checked_add(micros.parse().ok()?)?;
    let (who, _) = rest.rsplit_once(" [")?;
    let (_, task) = who.trim_end().rsplit_once('-')?;
    Some((task.parse().ok()?, time, &line[at..]))
}

fn fault(line: &str, clock: TraceClock) -> Option<Fault> {
    let (task, time, event) = line_of_trace(line, "mm_filemap_")?;
    let value = |key: &str| {
        let (_, rest) = event.split_once(key)?;
        rest.split([' ', '-']).next()
    };
    let (major, minor) = value(" dev=")?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let offset = value(" ofs=")?.parse().ok()?;
    let fits = clock.device.is_none_or(|own| own == device) && offset <= limits::WRITTEN;
    fits.then_some(Fault {
        task,
        at: time.checked_add_signed(clock.ahead_us.checked_neg()?)?,
        inode: u64::from_str_radix(value(" ino=")?, 16).ok()?,
        offset,
    })
}
