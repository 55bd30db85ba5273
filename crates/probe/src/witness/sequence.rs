//! Does the operations of a sequence, and looks at what is there: [`layermark_model::witness::sequence`].

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::{FileExt, FileTypeExt as _, symlink},
    path::Path,
};

use layermark_model::{
    protocol::{SequenceAsk, SequenceDid},
    witness::sequence::{
        Edit, FIRST, Name, Op, Seen, SeenEntry, Sequence, Step, Sync, TARGET, UNIT, UNITS,
    },
};
use rustix::fs::{FallocateFlags, OFlags, XattrFlags};

use super::{is_damage, is_refusal};
use crate::{ProbeError, engines::Mapping};

/// Most bytes of a file that are looked at: many times what a sequence writes.
const MOST: u64 = 1 << 20;
/// Bytes to which a buffer for `O_DIRECT` is aligned.
const ALIGNED: usize = 4096;
/// The attribute that is set.
const ATTRIBUTE: &str = "user.lm";
/// Directories of each sequence.
const DIRS: [&str; 3] = ["a", "b", "b/d"];

/// Does what is asked.
pub fn obey(ask: &SequenceAsk) -> Result<SequenceDid, ProbeError> {
    match ask {
        SequenceAsk::Make { dir } => {
            let dir = Path::new(dir);
            let made = make(dir);
            made.map_err(|e| ProbeError::io("make the files of a sequence in", dir, &e))?;
            Ok(SequenceDid::Done)
        }
        SequenceAsk::Settle { dir } => {
            let dir = Path::new(dir);
            let flushed = File::open(dir).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
            flushed.map_err(|e| ProbeError::io("flush the file system of", dir, &e))?;
            let fsync = &mut |path: &Path| File::open(path)?.sync_all();
            // And the one that they are in, for their names.
            let kept = keep(dir, fsync).and_then(|()| unless_refused(fsync(&dir.join(".."))));
            kept.map_err(|e| ProbeError::io("fsync the files of sequences in", dir, &e))?;
            Ok(SequenceDid::Done)
        }
        SequenceAsk::Step { dir, sequence, at } => {
            let sequence: Sequence = sequence.parse().map_err(ProbeError::new)?;
            let step = sequence.0.get(*at).copied();
            let step = step.ok_or_else(|| ProbeError::new(format!("no step {at}")))?;
            Ok(match do_step(Path::new(dir), &sequence, *at, step) {
                Ok(()) => SequenceDid::Done,
                Err((call, e)) => SequenceDid::Refused(format!("`{call}`: {e}")),
            })
        }
        SequenceAsk::Look { dir } => {
            let dir = Path::new(dir);
            let seen = look(dir).map_err(|e| ProbeError::io("look at the files in", dir, &e))?;
            Ok(SequenceDid::Seen(seen))
        }
    }
}

fn make(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for name in DIRS {
        fs::create_dir(dir.join(name))?;
    }
    for (name, byte) in FIRST {
        fs::write(dir.join(name), vec![byte; UNITS * UNIT])?;
    }
    Ok(())
}

/// Calls fsync of all files and directories below, and of the directory: a layer that keeps them in memory until
/// somebody asks for them is asked, and not every one is told of `syncfs`. Where directories cannot be flushed, names are
/// promised by nobody.
fn keep(path: &Path, fsync: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for inner in fs::read_dir(path)? {
            keep(&inner?.path(), fsync)?;
        }
    }
    unless_refused(fsync(path))
}

fn unless_refused(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(e) if is_refusal(&e) => Ok(()),
        done => done,
    }
}

/// An error is the call that failed, and how.
fn do_step(
    dir: &Path,
    sequence: &Sequence,
    at: usize,
    step: Step,
) -> Result<(), (String, io::Error)> {
    let path = |name: Name| dir.join(name.to_string());
    let done = match step.op {
        Op::Create(name) => File::create_new(path(name)).map(drop),
        Op::Mkdir(name) => fs::create_dir(path(name)),
        Op::Link(from, to) => fs::hard_link(path(from), path(to)),
        Op::Symlink(name) => symlink(TARGET, path(name)),
        Op::Rename(from, to) => fs::rename(path(from), path(to)),
        Op::Unlink(name) => fs::remove_file(path(name)),
        Op::Rmdir(name) => fs::remove_dir(path(name)),
        Op::Edit(edit, name) => sequence
            .extent(at)
            .map_err(io::Error::other)
            .and_then(|extent| change(&path(name), edit, extent)),
    };
    done.map_err(|e| (step.op.to_string(), e))?;
    let synced = match step.sync {
        Sync::None => Ok(()),
        Sync::Fsync(name) => File::open(path(name)).and_then(|file| file.sync_all()),
        Sync::Fdatasync(name) => File::open(path(name)).and_then(|file| file.sync_data()),
        Sync::Parent(parent) => super::sync_dir(&dir.join(parent.to_string())),
        Sync::All => File::open(dir).and_then(|dir| Ok(rustix::fs::syncfs(dir)?)),
        Sync::Msync(name) => mapped(&path(name), |map, size| map.sync(0, size)),
    };
    synced.map_err(|e| (step.sync.to_string(), e))
}

/// Changes a file between two places.
fn change(path: &Path, edit: Edit, (from, to, byte): (u64, u64, u8)) -> io::Result<()> {
    let length = to.saturating_sub(from);
    let mut options = File::options();
    options.write(true);
    let allocate = |flags| {
        let file = options.open(path)?;
        Ok(rustix::fs::fallocate(file, flags, from, length)?)
    };
    match edit {
        Edit::Overwrite | Edit::Unaligned | Edit::Append => {
            let bytes = vec![byte; length as usize];
            options.open(path)?.write_all_at(&bytes, from)
        }
        Edit::Direct | Edit::DirectAppend => {
            let direct = OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::open(path, direct, rustix::fs::Mode::empty())?);
            let buffer = vec![byte; length as usize + ALIGNED];
            let start = buffer.as_ptr().align_offset(ALIGNED);
            file.write_all_at(&buffer[start..start + length as usize], from)
        }
        Edit::Mapped => mapped(path, |map, _| {
            let bytes = vec![byte; length as usize];
            let gone = |at| io::Error::other(format!("the mapping ends at byte {at}"));
            map.write(from as usize, &bytes).map(drop).map_err(gone)
        }),
        Edit::Shrink | Edit::Empty => options.open(path)?.set_len(from),
        Edit::Grow => options.open(path)?.set_len(to),
        Edit::Allocate => allocate(FallocateFlags::empty()),
        Edit::Keep => allocate(FallocateFlags::KEEP_SIZE),
        Edit::Punch => allocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
        Edit::Attribute => {
            let file = options.open(path)?;
            Ok(rustix::fs::fsetxattr(
                file,
                ATTRIBUTE,
                &[byte],
                XattrFlags::empty(),
            )?)
        }
    }
}

/// Does something with a shared mapping of the whole file.
fn mapped(path: &Path, with: impl FnOnce(&mut Mapping, usize) -> io::Result<()>) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let size = file.metadata()?.len() as usize;
    let mut map = Mapping::new(&file, size, true)?.ok_or(io::ErrorKind::Unsupported)?;
    with(&mut map, size)
}

/// What is there. A file that cannot be read for a reason that is not the layer's is an error.
fn look(dir: &Path) -> io::Result<Seen> {
    let mut names = BTreeMap::new();
    for name in Name::ALL {
        let text = name.to_string();
        match entry(&dir.join(&text)) {
            Ok(entry) => drop(names.insert(text, entry)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) if is_damage(&e) => {
                names.insert(text, SeenEntry::Unreadable(e.to_string()));
            }
            Err(e) => return Err(e),
        }
    }
    Ok(Seen { names })
}

fn entry(path: &Path) -> io::Result<SeenEntry> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_dir() {
        return Ok(SeenEntry::Directory);
    }
    if kind.is_symlink() {
        let to = fs::read_link(path)?;
        return Ok(SeenEntry::Link(to.to_string_lossy().into_owned()));
    }
    if kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device() {
        return Ok(SeenEntry::Unreadable("it is not a regular file".into()));
    }
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    (&file).take(MOST).read_to_end(&mut bytes)?;
    let runs = bytes.chunk_by(|a, b| a == b);
    let runs = runs.map(|run| (run[0], run.len() as u64)).collect();
    let mut value = [0; 256];
    let attribute = match rustix::fs::fgetxattr(&file, ATTRIBUTE, &mut value[..]) {
        Ok(n) => Some(String::from_utf8_lossy(&value[..n]).into_owned()),
        // It has none, or the layer knows no attributes.
        Err(_) => None,
    };
    Ok(SeenEntry::File { runs, attribute })
}

#[cfg(test)]
mod tests {
    use layermark_model::witness::sequence::Oracle;

    use super::*;

    fn told(ask: &SequenceAsk) -> SequenceDid {
        obey(ask).unwrap_or_else(|e| panic!("{}", e.message))
    }

    /// A server that kept them in memory, and was never asked for them, was convicted of losing them.
    #[test]
    fn each_file_and_directory_is_flushed_before_what_it_is_in() {
        let home = tempfile::tempdir().unwrap();
        let dir = |number: u32| home.path().join(format!("sequences/{number}"));
        for number in 0..2 {
            let dir = dir(number).to_string_lossy().into_owned();
            told(&SequenceAsk::Make { dir });
        }
        let mut asked = Vec::new();
        let refused = io::Error::from_raw_os_error(libc::EINVAL);
        let mut refused = Some(refused);
        keep(home.path(), &mut |path| {
            asked.push(path.to_owned());
            refused.take().map_or(Ok(()), Err)
        })
        .unwrap();
        let at = |path: &Path| {
            let found: Vec<usize> = (0..asked.len()).filter(|at| asked[*at] == path).collect();
            assert_eq!(found.len(), 1, "{}: {asked:#?}", path.display());
            found[0]
        };
        for number in 0..2 {
            for name in ["a", "b", "b/d", "a/f", "b/f"] {
                let path = dir(number).join(name);
                assert!(at(&path) < at(path.parent().unwrap()), "{asked:#?}");
            }
            assert!(at(&dir(number)) < at(&home.path().join("sequences")));
        }
        assert_eq!(asked.last().map(|path| &**path), Some(home.path()));
        let failed = keep(home.path(), &mut |_| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    /// What each operation of the oracle's does is what it does here.
    #[test]
    fn every_operation_leaves_what_the_oracle_says() {
        // Its file system has attributes and O_DIRECT, as a tmpfs may not.
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut all = Sequence::all_of_one();
        all.extend(Sequence::all_of_two().into_iter().step_by(97));
        assert!(all.len() > 500, "{}", all.len());
        let (mut done, mut refused) = (0, Vec::new());
        for (number, sequence) in all.iter().enumerate() {
            let dir = home.path().join(number.to_string());
            let dir = dir.to_string_lossy().into_owned();
            told(&SequenceAsk::Make { dir: dir.clone() });
            let steps = (0..sequence.0.len()).map(|at| {
                told(&SequenceAsk::Step {
                    dir: dir.clone(),
                    sequence: sequence.to_string(),
                    at,
                })
            });
            let steps: Vec<SequenceDid> = steps.collect();
            if let Some(why) = steps.iter().find(|did| **did != SequenceDid::Done) {
                refused.push(format!("{sequence}: {why:?}"));
                continue;
            }
            let SequenceDid::Seen(seen) = told(&SequenceAsk::Look { dir }) else {
                panic!("nothing seen of `{sequence}`");
            };
            let differs = Oracle::of(sequence).unwrap().differs(&seen);
            assert_eq!(differs, None, "{sequence}");
            done += 1;
        }
        // A container's file system may lack one of the calls.
        assert!(done * 2 > all.len(), "{refused:#?}");
    }
}
