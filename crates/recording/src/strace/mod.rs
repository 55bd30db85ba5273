//! Recordings from the output of `strace -f -y` (also with `-yy`, `-ttt`, `-T`).
//!
//! Calls on files below one directory are kept. Of the time between calls only the proportions are: strace itself takes
//! most of it.

use std::io::BufRead;

mod by_path;
mod calls;
mod claims;
mod descriptors;
mod faults;
mod files;
mod gaps;
mod hard_links;
mod infer;
mod lex;
mod log;
mod lookups;
mod mappings;
mod names;
mod number;
mod overlaps;
mod paths;
mod running;
mod sequence;
mod sockets;
mod tasks;
#[cfg(test)]
mod tests;
mod two_names;

pub use faults::{Faults, MAPPINGS, TraceClock, line_of_trace};
pub use lex::{Ended, path_of, quoted, took};
pub use log::{Event, events};
pub use names::error_name;
pub use paths::{below, normal};
pub use running::{OpenFile, Running, lines_of};

use crate::{Entry, EntryKind, Head, Name, Recording, limits};
use lex::Line;
use log::Unfinished;
use overlaps::Overlaps;
use paths::Links;
use sequence::Sequence;

/// What the converter has to know beside the log.
#[derive(Debug, Clone, Default)]
pub struct TraceOf {
    /// The directory whose files are kept: an absolute path without links.
    pub root: Vec<u8>,
    /// The directory in which the program was started.
    pub cwd: Vec<u8>,
    /// The tree below `root` when the program was started, with the targets of links as they are. Without it, it is
    /// inferred from the calls.
    pub tree: Option<Vec<Entry>>,
    /// Files of the tree that it had open when it was started.
    pub opened: Vec<OpenFile>,
    /// Its page faults, if they were recorded.
    pub faults: Option<Faults>,
}

/// The parts of a recording, and what was seen.
#[derive(Debug)]
pub struct Converted {
    /// The recording. Command, seed and version are empty.
    pub recording: Recording,
    /// Calls in the log, those of other files too.
    pub traced: u64,
    /// [`crate::Call::gap`] of each call, if the log is of `strace -ttt -T`.
    pub gaps: Vec<u32>,
}

/// Converts a log.
///
/// # Errors
/// If it cannot be read, has no calls on files of the directory, or too many.
pub fn convert(log: impl BufRead, of: &TraceOf) -> Result<Converted, String> {
    let mut links = Links::default();
    let mut left_out = std::collections::BTreeMap::new();
    let tree = of.tree.as_ref().map(|tree| {
        let (tree, changed) = safe_tree(tree, &of.root, &mut links);
        if changed > 0 {
            left_out.insert(
                "symbolic links that lead up, and were followed while recording".to_owned(),
                changed,
            );
        }
        tree
    });
    if let Some(lost) = of
        .faults
        .as_ref()
        .map(|faults| faults.lost)
        .filter(|lost| *lost > 0)
    {
        left_out.insert(
            "page faults, of other files too: there were more than are kept".to_owned(),
            lost,
        );
    }
    let mut sequence = Sequence::new(of, links, tree.is_none());
    sequence.left_out = left_out;
    let mut unfinished = Unfinished::default();
    let mut overlaps = Overlaps::default();
    let mut opened = (!of.opened.is_empty()).then_some(of.opened.as_slice());
    let (mut some_numbered, mut some_not) = (false, false);
    let mut traced = 0;
    log::lines(log, |line| {
        let Some(line) = line else {
            sequence.leave("calls that are too long in the trace");
            return Ok(());
        };
        some_numbered |= line.in_brackets;
        some_not |= line.task == 0 && line.is_call();
        traced += u64::from(line.is_call());
        if some_numbered && some_not {
            return Err("it does not say of every call which task made it".into());
        }
        if let Some(files) = opened.take() {
            let before = opened_by(line.task, of, files);
            for line in before.lines().filter_map(lex::split) {
                one(&mut sequence, &mut unfinished, &line, false)?;
            }
        }
        if !overlaps.holds(line, &mut sequence) {
            return one(&mut sequence, &mut unfinished, line, false);
        }
        while let Some(given) = overlaps.give() {
            one(&mut sequence, &mut unfinished, &given.line(), given.moved)?;
        }
        Ok(())
    })?;
    overlaps.end();
    while let Some(given) = overlaps.give() {
        one(&mut sequence, &mut unfinished, &given.line(), given.moved)?;
    }
    sequence.faults_until(u64::MAX)?;
    if sequence.calls.is_empty() {
        return Err("it has no calls on files of the directory".into());
    }
    let (tree, guessed) = match tree {
        Some(tree) => (tree, false),
        None => (sequence.inferred()?, true),
    };
    if guessed {
        sequence.leave("contents of the tree before: inferred from the calls");
    }
    let head = Head {
        tasks: sequence.tasks(),
        files: sequence.files(),
        left_out: std::mem::take(&mut sequence.left_out),
        ..Head::default()
    };
    Ok(Converted {
        traced,
        gaps: sequence.gaps.of_calls(),
        recording: Recording {
            head,
            tree,
            names: sequence.names,
            calls: sequence.calls,
        },
    })
}

/// Lines of the files that a task had open when it was started.
fn opened_by(task: u32, of: &TraceOf, files: &[OpenFile]) -> String {
    let files = files.iter().map(|file| OpenFile {
        same_as: file.same_as.map(|(_, descriptor)| (task, descriptor)),
        ..file.clone()
    });
    lines_of(&[Running {
        pid: task,
        cwd: of.cwd.clone(),
        files: files.collect(),
        ..Running::default()
    }])
}

/// Takes one line: a call, the begin or end of one, or the end of a task. `moved`: to before a line that is earlier in the
/// log, whose page faults come first.
fn one(
    sequence: &mut Sequence,
    unfinished: &mut Unfinished,
    line: &Line<'_>,
    moved: bool,
) -> Result<(), String> {
    let &Line { task, at, text, .. } = line;
    // A new task inherits mappings, and may have had faults before its first line. One that has ended is not a new one.
    if !text.starts_with("+++") {
        sequence.task(task);
    }
    if let (Some(at), false) = (at, moved) {
        sequence.faults_until(at)?;
    }
    let goes_on = text.starts_with("<... ");
    if !goes_on {
        sequence.gaps.begins(task, at);
    }
    let ended = if goes_on {
        at
    } else {
        at.zip(lex::took(text))
            .map(|(at, took)| at.saturating_add(took))
    };
    sequence.gaps.ends(task, ended);
    match unfinished.event(line) {
        Some(Event::Begun(text)) => sequence.begun(task, text)?,
        // Its number was free, and may have been taken again, before close returned.
        Some(Event::Ended { text, resumed }) if resumed && text.starts_with("close(") => {}
        Some(Event::Ended { text, resumed }) => sequence.ended(task, &text, resumed)?,
        Some(Event::Exited) => sequence.exited(task)?,
        None => return Ok(()),
    }
    sequence.check()
}

/// A tree as it is made for a replay: links only lead down, and no program runs as another user. Returns how many links
/// were changed. Remembers these.
fn safe_tree(tree: &[Entry], root: &[u8], links: &mut Links) -> (Vec<Entry>, u64) {
    let mut changed = 0;
    let safe = tree.iter().map(|entry| {
        let mut entry = entry.clone();
        entry.mode &= limits::MODE;
        if let (EntryKind::Link, Some(target)) = (entry.kind, &entry.target) {
            let path = [root, b"/", &entry.path.0].concat();
            let (safe, other) = links.add(path, &target.0);
            changed += u64::from(other);
            entry.target = Some(Name(safe));
        }
        entry
    });
    let safe = safe.collect();
    (safe, changed)
}

/// A tree that a program has left, as a replay of it leaves it.
pub fn safe(tree: &[Entry]) -> Vec<Entry> {
    safe_tree(tree, b"", &mut Links::default()).0
}
