//! The command that looks for a program's items after a power cut.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Seek, Write},
    os::fd::{AsFd, BorrowedFd},
    path::PathBuf,
    time::{Duration, Instant},
};

use layermark_model::{
    protocol::CheckJob,
    witness::{ItemCheck, LONGEST_ITEM},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{MemfdFlags, memfd_create},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};

use super::{
    MOST_OUTPUT, it_said,
    output::{keep_last, read_more, ready},
    shell,
};
use crate::{
    ProbeError,
    programs::{
        guard::{Guard, Guarded},
        tree::Tree,
    },
};

/// How long a check may take.
const CHECK: Duration = Duration::from_mins(1);

/// Runs a check, and reads its answer.
pub fn check(job: &CheckJob) -> Result<ItemCheck, ProbeError> {
    let dir = PathBuf::from(&job.dir);
    fs::create_dir_all(&dir).map_err(|e| ProbeError::io("make", &dir, &e))?;
    let mut guard = Guard::start(Checks {
        dir,
        command: job.check.clone(),
        items: job.items.clone(),
    })?;
    let said = guard.work(CHECK, &mut || {})?;
    guard.stop()?;
    Ok(*said)
}

/// A check, for its guard.
struct Checks {
    dir: PathBuf,
    command: String,
    items: Vec<String>,
}

impl Checks {
    /// The items, a line each.
    fn input(&self) -> io::Result<File> {
        let mut file = File::from(memfd_create("items", MemfdFlags::CLOEXEC)?);
        for item in &self.items {
            file.write_all(item.as_bytes())?;
            file.write_all(b"\n")?;
        }
        file.rewind()?;
        Ok(file)
    }

    /// All that it prints, and its exit code.
    fn run(&self, tree: &mut Tree, asker: BorrowedFd<'_>) -> Result<(Vec<u8>, i32), ProbeError> {
        let failed = |e: io::Error| ProbeError::new(format!("the check's output: {e}"));
        let (pipe, out) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        let input = self.input().map_err(failed)?;
        let started = shell(&self.dir, &self.command, Some(input), [&out, &out])?;
        drop(out);
        tree.main = Some(started.pid);
        let (mut pipe, mut printed) = (File::from(pipe), Vec::new());
        let until = Instant::now() + CHECK;
        loop {
            // A process that it has left may keep the pipe open.
            let both = [Some(started.pidfd.as_fd()), Some(pipe.as_fd())];
            let [ended, more] = ready(both, Instant::now()).map_err(failed)?;
            if ended && !more {
                break;
            }
            if !more {
                wait(&[&pipe, &started.pidfd], asker, until)?;
                continue;
            }
            let n = read_more(&mut pipe, &mut printed).map_err(failed)?;
            if printed.len() > MOST_OUTPUT {
                let mib = MOST_OUTPUT >> 20;
                return Err(ProbeError::new(format!(
                    "the check printed more than {mib} MiB"
                )));
            }
            if n == 0 {
                wait(&[&started.pidfd], asker, until)?;
                break;
            }
        }
        tree.reap();
        let code = tree
            .code
            .ok_or_else(|| ProbeError::new("the check did not end"))?;
        Ok((printed, code))
    }
}

/// Waits until one of these can be read. An error is that none could in time, or that nobody waits for the answer.
fn wait(all: &[&dyn AsFd], asker: BorrowedFd<'_>, until: Instant) -> Result<(), ProbeError> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let fds = all
            .iter()
            .map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = fds.collect();
        fds.push(PollFd::from_borrowed_fd(asker, PollFlags::RDHUP));
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) => {
                let seconds = CHECK.as_secs();
                return Err(ProbeError::new(format!(
                    "the check did not end in {seconds} s"
                )));
            }
            Ok(_) if fds.last().is_some_and(|fd| !fd.revents().is_empty()) => {
                return Err(ProbeError::new("cancelled"));
            }
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(e) => return Err(ProbeError::new(format!("the check: {e}"))),
        }
    }
}

impl Guarded for Checks {
    type Done = ItemCheck;

    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    fn prepare(&mut self, _: &mut Tree, _: BorrowedFd<'_>) -> Result<(), ProbeError> {
        Ok(())
    }

    fn work(&mut self, tree: &mut Tree, asker: BorrowedFd<'_>) -> Result<ItemCheck, ProbeError> {
        let (printed, code) = self.run(tree, asker)?;
        let answer = answer(&printed, code == 1, &self.items);
        if !(0..=1).contains(&code) {
            let said = it_said(&answer.said);
            return Err(
                ProbeError::new(format!("the check ended with exit code {code}{said}"))
                    .hint("it has to end with 0, or with 1 where something is missing"),
            );
        }
        Ok(answer)
    }
}

/// What a check has printed: `lost ITEM` and `torn ITEM`, each item once, and of those that nobody asked for the first.
fn answer(printed: &[u8], fault: bool, items: &[String]) -> ItemCheck {
    let asked: BTreeSet<&[u8]> = items.iter().map(String::as_bytes).collect();
    let (mut lost, mut torn, mut stranger) = (BTreeSet::new(), BTreeSet::new(), None);
    let mut said = String::new();
    for line in printed.split(|b| *b == b'\n') {
        let (into, item) = match (line.strip_prefix(b"lost "), line.strip_prefix(b"torn ")) {
            (Some(item), _) => (&mut lost, item),
            (_, Some(item)) => (&mut torn, item),
            _ => {
                keep_last(line, &mut said);
                continue;
            }
        };
        if asked.contains(item) {
            into.insert(item);
        } else {
            stranger.get_or_insert(&item[..item.len().min(LONGEST_ITEM)]);
        }
    }
    lost.retain(|item| !torn.contains(item));
    let text = |item: &[u8]| String::from_utf8_lossy(item).into_owned();
    ItemCheck {
        lost: lost.into_iter().chain(stranger).map(text).collect(),
        torn: torn.into_iter().map(text).collect(),
        fault,
        said,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn checked(dir: &Path, check: &str, items: &[&str]) -> Result<ItemCheck, ProbeError> {
        super::check(&CheckJob {
            dir: dir.to_string_lossy().into_owned(),
            check: check.into(),
            items: items.iter().map(|i| (*i).to_owned()).collect(),
        })
    }

    #[test]
    fn a_check_gets_the_items_and_names_those_that_are_missing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "").unwrap();
        let check = "while read -r i; do [ -e \"$i\" ] || { echo \"lost $i\"; bad=1; }; done; exit ${bad:-0}";
        let said = checked(dir.path(), check, &["a", "b", "c d"]).unwrap();
        assert_eq!(said.lost, ["b", "c d"]);
        assert!(said.fault && said.torn.is_empty());
        assert!(checked(dir.path(), check, &["a"]).unwrap().is_clean());
        let torn = checked(dir.path(), "echo torn a; echo well", &["a"]).unwrap();
        assert_eq!((torn.torn, torn.fault), (vec!["a".to_owned()], false));
    }

    /// A check may print more than a line of the protocol has, and leave a process that keeps its output open.
    #[test]
    fn an_answer_has_each_item_once_and_ends_with_the_check() {
        let dir = tempfile::tempdir().unwrap();
        let check =
            "sleep 60 & yes 'lost a' | head -n 1000000; echo lost nobody; echo why >&2; exit 1";
        let said = checked(dir.path(), check, &["a", "b"]).unwrap();
        assert_eq!(said.lost, ["a", "nobody"]);
        assert_eq!((said.fault, said.said.as_str()), (true, "why"));
    }

    #[test]
    fn a_check_that_crashes_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for (check, why) in [
            ("kill -SEGV $$", "exit code 139"),
            ("nowhere", "exit code 127"),
        ] {
            let e = checked(dir.path(), check, &["a"]).unwrap_err();
            assert!(e.message.contains(why), "{}", e.message);
        }
        let e = checked(dir.path(), "yes", &["a"]).unwrap_err();
        assert!(e.message.contains("more than 16 MiB"), "{}", e.message);
    }
}
