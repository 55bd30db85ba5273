//! The first line of an agent, and what can be in its way.

use std::{
    ffi::OsString,
    io::{ErrorKind, Read},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

use super::{HELLO, Line};
use crate::{Control, LayerError, child::Process};

/// Most that a command may print before the agent's first line, bytes.
const LONGEST: usize = 64 << 10;
/// Lines of it that are shown.
const SHOWN: usize = 10;

/// An agent that has spoken.
pub(super) struct Greeting {
    pub(super) process: Process,
    pub(super) stream: UnixStream,
}

/// Why no agent has spoken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// The command ended: how, and what it printed.
    Ended { how: String, said: Vec<String> },
    /// Nothing more was printed for so long.
    Silent { after: Duration, said: Vec<String> },
    /// It printed too much.
    Flood { said: Vec<String> },
    /// It gives its program a terminal, which changes what passes through it.
    Terminal,
    /// The binary there is not this one.
    OtherBinary,
    /// No directory there takes the binary.
    NoRoom { said: Vec<String> },
}

/// Waits for the first line of the agent with this token, which must say this of its binary. Other lines before
/// it are ignored: shells and servers greet.
pub(super) fn wait(
    line: Line,
    token: &str,
    hash: &str,
    limit: Duration,
) -> Result<Greeting, Failed> {
    let Line {
        mut process,
        mut stream,
    } = line;
    let begins = format!("{HELLO}{token} ");
    let found = line_with(&mut process, &mut stream, &begins, limit)?;
    if found.ends_with('\r') {
        return Err(Failed::Terminal);
    }
    if found != hash {
        return Err(Failed::OtherBinary);
    }
    Ok(Greeting { process, stream })
}

/// Waits for a line that begins like this; the rest of it.
pub(super) fn line_with(
    process: &mut Process,
    stream: &mut UnixStream,
    begins: &str,
    limit: Duration,
) -> Result<String, Failed> {
    const TICK: Duration = Duration::from_millis(100);
    let (mut line, mut said, mut length) = (Vec::new(), Vec::<String>::new(), 0);
    let mut last = Instant::now();
    // If it cannot be set, the read waits for the end of the command.
    let _ = stream.set_read_timeout(Some(TICK));
    loop {
        // A byte at a time: what follows the line is not for this function.
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(0) => return Err(ended(process, said)),
            Ok(_) => last = Instant::now(),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                if last.elapsed() >= limit {
                    keep(&mut said, &line);
                    said.extend(process.tail());
                    return Err(Failed::Silent { after: limit, said });
                }
                continue;
            }
            Err(_) => return Err(ended(process, said)),
        }
        length += 1;
        if byte == *b"\n" {
            let text = String::from_utf8_lossy(&line).into_owned();
            if let Some(rest) = text.strip_prefix(begins) {
                let _ = stream.set_read_timeout(None);
                return Ok(rest.to_owned());
            }
            keep(&mut said, &line);
            line.clear();
        } else {
            line.push(byte[0]);
        }
        if length > LONGEST {
            keep(&mut said, &line);
            return Err(Failed::Flood { said });
        }
    }
}

/// Keeps the last lines, safe to print on a terminal.
fn keep(said: &mut Vec<String>, line: &[u8]) {
    let text: String = String::from_utf8_lossy(&line[..line.len().min(200)])
        .chars()
        .filter(|c| !c.is_control())
        .collect();
    if !text.trim().is_empty() {
        said.push(text);
    }
    if said.len() > SHOWN {
        said.remove(0);
    }
}

fn ended(process: &mut Process, mut said: Vec<String>) -> Failed {
    // Its output is closed, so it is about to end.
    let how = process.wait(Duration::from_secs(2));
    said.extend(process.last_lines());
    Failed::Ended {
        how: how.unwrap_or_else(|| "its output is closed".into()),
        said,
    }
}

impl Failed {
    /// Whether the place was entered and does not have this binary, or has another one. Other failures are the
    /// command's own.
    pub(super) fn is_of_binary(&self, binary: &Path) -> bool {
        let (how, said) = match self {
            Self::OtherBinary => return true,
            Self::Ended { how, said } => (how.as_str(), said),
            _ => return false,
        };
        let path = binary.to_string_lossy();
        // An older layermark does not know the word.
        let is_named = |line: &String| line.contains(&*path) || line.contains("'place'");
        // As shells and most programs exit that cannot find or run another one.
        ["exit code 126", "exit code 127"].contains(&how) || said.iter().any(is_named)
    }

    /// The error where the command is layermark's own: the user can only read what it printed.
    pub(super) fn of_own(self, layer: &str, command: &[OsString]) -> LayerError {
        match self.error(layer, command) {
            LayerError::Entered {
                layer, what, tail, ..
            } => LayerError::Entered {
                layer,
                what,
                tail,
                hint: None,
            },
            other => other,
        }
    }

    pub(super) fn error(self, layer: &str, command: &[OsString]) -> LayerError {
        let words = command.iter().map(|word| word.to_string_lossy());
        // The user has another configuration and other known hosts than root.
        let sudo = std::env::var_os("SUDO_UID").map_or("", |_| "sudo ");
        let command = format!("{sudo}{}", shell_words::join(words));
        let secret = |said: &[String]| {
            let has = |words: &[&str]| {
                let lower = said.iter().map(|line| line.to_lowercase());
                lower
                    .into_iter()
                    .any(|line| words.iter().any(|word| line.contains(word)))
            };
            if has(&["host identification has changed"]) {
                return Some("the host has another key than the known one: ask its owner why, then remove the known one: ssh-keygen -R HOST".into());
            }
            if has(&["host key verification failed", "host key is known"]) {
                return Some(format!(
                    "its host key is not known: compare it with the host's own, and accept it once by hand: {command}"
                ));
            }
            has(&["password", "passphrase", "authenticat", "publickey"]).then(|| {
                format!("a run types no password: give it a key or an agent, then try: {command} true < /dev/null")
            })
        };
        let try_it = format!("see what it does: {command} true < /dev/null");
        let (what, tail, hint) = match self {
            Self::Ended { how, said } => (
                format!("its command ended before the probe spoke ({how})"),
                said.clone(),
                secret(&said).unwrap_or(try_it),
            ),
            Self::Silent { after, said } => (
                format!("its command did not start the probe within {after:?}"),
                said.clone(),
                secret(&said).unwrap_or(try_it),
            ),
            Self::Flood { said } => (
                format!("its command printed {LONGEST} bytes before the probe spoke"),
                said,
                try_it,
            ),
            Self::Terminal => (
                "its command gives the probe a terminal, which changes what the probe sends".into(),
                Vec::new(),
                "leave out the option for a terminal, mostly -t: podman exec -i, ssh -T".into(),
            ),
            Self::OtherBinary => (
                "the layermark there is not this one".into(),
                Vec::new(),
                "install the same layermark on both sides".into(),
            ),
            Self::NoRoom { said } => (
                "the binary could not be brought there: no directory of /tmp, /var/tmp, the home directory and dir= can hold and run it for its user alone".into(),
                said,
                format!("see whether it has a shell: {command} sh -c 'echo ready'"),
            ),
        };
        LayerError::Entered {
            layer: layer.into(),
            what,
            tail,
            hint: Some(hint),
        }
    }
}
