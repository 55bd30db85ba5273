//! Runs a command of the user's when a layer ends, also after layermark was killed.
//!
//! A child process holds one end of a pipe; only layermark holds the other one. When layermark ends, for
//! whatever reason, the kernel closes that end, and the child runs the commands.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::set_parent_process_death_signal;

use crate::{
    child::{self, LIMIT},
    entered::users_command,
    keeper::{self, Spared},
};

/// Commands that run when this is run or dropped, or when layermark ends.
pub(crate) struct Teardown {
    child: Child,
    /// Open as long as the command has to wait.
    held: Option<ChildStdin>,
    _spared: Spared,
}

impl Teardown {
    /// Starts `EXE teardown`, and waits until it cannot be ended with layermark any more. Each command is
    /// preceded by the number of its words.
    pub(crate) fn start(exe: &Path, commands: &[Vec<OsString>]) -> io::Result<Self> {
        let mut all: Vec<OsString> = vec![exe.into(), "teardown".into()];
        for words in commands {
            all.push(words.len().to_string().into());
            all.extend(words.iter().cloned());
        }
        let mut child = users_command(&all)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let spared = keeper::spare(child.id());
        let held = child.stdin.take();
        if let Some(mut ready) = child.stdout.take() {
            ready.read_exact(&mut [0])?;
        }
        Ok(Self {
            child,
            held,
            _spared: spared,
        })
    }

    /// Lets it run, and waits for its end.
    pub(crate) fn run(mut self) -> io::Result<()> {
        drop(self.held.take());
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            let Some(status) = self.child.try_wait()? else {
                thread::sleep(Duration::from_millis(2));
                continue;
            };
            return if status.success() {
                Ok(())
            } else {
                Err(io::Error::other(child::ending(status)))
            };
        }
        Err(io::Error::other(format!("still running after {LIMIT:?}")))
    }
}

/// Waits until standard input ends, and runs the commands one after the other.
pub fn teardown(words: &[OsString]) -> io::Result<()> {
    let commands = commands(words)
        .filter(|commands| !commands.is_empty())
        .ok_or_else(|| io::Error::other("this is started by layermark itself"))?;
    set_parent_process_death_signal(None)?;
    io::stdout().write_all(b"1")?;
    io::stdout().flush()?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    let mut outcome = Ok(());
    for (program, arguments) in commands {
        let status = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        outcome = match status {
            Ok(status) if status.success() => outcome,
            Ok(status) => Err(io::Error::other(child::ending(status))),
            Err(e) => Err(e),
        };
    }
    outcome
}

/// Each command's program and its arguments; `None` if the numbers do not fit.
fn commands(mut words: &[OsString]) -> Option<Vec<(&OsString, &[OsString])>> {
    let mut all = Vec::new();
    while let [count, rest @ ..] = words {
        let (command, next) = rest.split_at_checked(count.to_str()?.parse().ok()?)?;
        all.push(command.split_first()?);
        words = next;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_apart_by_the_number_of_their_words() {
        let words = ["2", "rm", "1", "1", "ls"].map(OsString::from);
        let both = commands(&words).unwrap();
        assert_eq!(both[0], (&words[1], &words[2..3]));
        assert_eq!(both[1], (&words[4], &words[5..5]));
        for wrong in [&["0"][..], &["2", "rm"], &["rm", "x"]] {
            let words: Vec<OsString> = wrong.iter().map(OsString::from).collect();
            assert_eq!(commands(&words), None, "{wrong:?}");
        }
    }
}
