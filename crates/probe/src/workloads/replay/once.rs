//! Trees and replays in a directory, one after another.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use layermark_model::Pattern;
use layermark_recording::{Entry, Recording, strace::error_name, words_of};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::{
    calls::{Buffers, Site},
    tasks::{self, Replay},
    trace::Trace,
    tree::{self, Contents},
};
use crate::{ProbeError, buffer::Buffer, workloads::work_dir::WorkDir};

/// A tree in a directory of ours, and what its recording does with it.
pub struct Replayer {
    /// The tree that the program found.
    tree: Vec<Entry>,
    /// The tree that it left, in words, if the recording says.
    expected: Option<String>,
    trace: Trace,
    contents: Contents,
    buffers: Vec<Buffers>,
    /// Data that is written; here between trees.
    data: Option<Buffer>,
    /// Where trees are made, each in a directory of its own.
    dir: PathBuf,
    /// The shortest time to create a file in one of them, ns.
    least_ns: Option<u64>,
    /// The current tree.
    site: Option<(Site, WorkDir)>,
}

/// One replay, for those who record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// What it took, ns.
    pub elapsed_ns: u64,
    /// The tree that it left, in words.
    pub after: String,
}

/// Makes the tree of a recording in an empty directory of the caller, replays it once, and removes the tree. Its tasks
/// compute for `think_ns` altogether.
///
/// # Errors
/// If the tree cannot be made, or a call ends in another way than it was recorded: the error names it.
pub fn replay(recording: &Recording, dir: &Path, think_ns: u64) -> Result<Replayed, ProbeError> {
    let mut replayer = Replayer::new(recording, dir.to_owned(), 1, think_ns)?;
    let done = replayer.renew().and_then(|()| {
        let replay = replayer.run(&mut || {})?;
        Ok(Replayed {
            elapsed_ns: replay.elapsed_ns,
            after: replayer.after()?,
        })
    });
    let removed = replayer.remove();
    let done = done?;
    removed?;
    Ok(done)
}

impl Replayer {
    /// Nothing is made yet. Its tasks compute for `think_ns` altogether.
    pub fn new(
        recording: &Recording,
        dir: PathBuf,
        seed: u64,
        think_ns: u64,
    ) -> Result<Self, ProbeError> {
        let trace = Trace::new(recording, think_ns)?;
        let largest = trace.buffers.iter().max().copied().unwrap_or(0) as usize;
        let sizes = trace.buffers.iter().zip(&trace.lists);
        let buffers = sizes.map(|(bytes, entries)| Buffers {
            bytes: Buffer::new(*bytes as usize),
            entries: Vec::with_capacity(*entries as usize),
        });
        let buffers = buffers.collect();
        let mut data = Buffer::new(largest);
        let seed = seed ^ recording.head.seed;
        data.fill(Pattern::Random, largest.max(1), seed);
        Ok(Self {
            contents: Contents::new(recording.head.seed),
            tree: recording.tree.clone(),
            expected: recording.head.after.clone(),
            trace,
            buffers,
            data: Some(data),
            dir,
            least_ns: None,
            site: None,
        })
    }

    /// Makes a new tree, and removes the one that the last replay has left.
    pub fn renew(&mut self) -> Result<(), ProbeError> {
        self.remove()?;
        let work = WorkDir::quick(&self.dir, &mut self.least_ns)?;
        let path = work.path();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root: OwnedFd = openat(CWD, path, flags, Mode::empty())
            .map_err(|e| ProbeError::io("open", path, &e.into()))?;
        let made = tree::make(root.as_fd(), &self.tree, &self.contents);
        made.map_err(|(name, e)| ProbeError::io("make", &path.join(name.escaped()), &e.into()))?;
        let data = self.data.take().unwrap_or_else(|| Buffer::new(0));
        let site = Site::new(root, &self.trace, data);
        for ready in &mut self.trace.calls {
            if ready.call.kind.is_named_xattr() {
                let name = ready
                    .call
                    .path
                    .map(|number| self.trace.names[number as usize].as_c_str());
                ready.whole = name.and_then(|name| site.whole(name));
            }
        }
        self.site = Some((site, work));
        Ok(())
    }

    /// Removes the tree.
    pub fn remove(&mut self) -> Result<(), ProbeError> {
        let Some((site, work)) = self.site.take() else {
            return Ok(());
        };
        // Closes what the recording has left open.
        self.data = Some(site.into_data());
        work.remove()
            .map_err(|e| ProbeError::io("remove", work.path(), &e))
    }

    /// Replays once.
    ///
    /// # Errors
    /// If a call ended in another way than it was recorded.
    pub fn run(&mut self, beat: &mut dyn FnMut()) -> Result<Replay, ProbeError> {
        let Some((site, _)) = &self.site else {
            return Err(ProbeError::new("replay: there is no tree"));
        };
        let replay = tasks::replay(site, &self.trace, &mut self.buffers, beat);
        let replay = replay
            .map_err(|e| ProbeError::new(format!("replay: a thread cannot be started: {e}")))?;
        let Some(wrong) = replay.first_wrong else {
            if replay.wrong > 0 {
                return Err(ProbeError::new("replay: a thread has panicked"));
            }
            return Ok(replay);
        };
        let ready = &self.trace.calls[wrong.number as usize];
        let more = if replay.wrong > 1 {
            format!(
                "; {} of {} calls ended in another way",
                replay.wrong,
                self.trace.calls.len()
            )
        } else {
            String::new()
        };
        let text = format!(
            "call {} of the recording, `{}`, ended with {} here and with {} when it was recorded{more}",
            wrong.number,
            self.trace.words(wrong.number),
            outcome(wrong.outcome),
            outcome(ready.call.outcome),
        );
        let error = ProbeError::new(layermark_model::plain(&text).into_owned());
        Err(match ready.hint(wrong.outcome) {
            Some(hint) => error.hint(hint),
            None => error,
        })
    }

    /// The tree in words. An error if the recording says that it must be another.
    pub fn after(&self) -> Result<String, ProbeError> {
        let Some((site, work)) = &self.site else {
            return Err(ProbeError::new("replay: there is no tree"));
        };
        let found =
            tree::list(site.root.as_fd()).map_err(|e| ProbeError::io("list", work.path(), &e))?;
        let after = words_of(&found.entries);
        match &self.expected {
            Some(recorded) if *recorded != after => Err(ProbeError::new(format!(
                "the replay left another tree than the program: {after} instead of {}",
                layermark_model::plain(recorded)
            ))),
            _ => Ok(after),
        }
    }
}

/// What a call returned, in words.
fn outcome(returned: i64) -> String {
    match returned {
        0 => "success".into(),
        1.. => format!("{returned} bytes"),
        _ => error_name(-returned).map_or_else(|| format!("error {}", -returned), str::to_owned),
    }
}
