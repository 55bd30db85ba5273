//! System calls of programs, by strace(1): its command line, and what it writes.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::ProbeError;

/// Longest line that is read, bytes: a path has at most 4,096, each up to four characters long.
const LONGEST: u64 = 64 << 10;
/// Largest trace that is read, bytes.
const LARGEST: u64 = 256 << 20;

/// The words before a program that trace it and its children: paths of descriptors, no data, and these
/// calls. Those that a machine does not have are skipped if a `?` stands before them.
pub fn command<'a>(options: &[&'a str], calls: &'a str, file: &'a str) -> Vec<&'a str> {
    let own = ["strace", "-f", "--seccomp-bpf", "-y", "-qq", "-s", "0"];
    [&own[..], options, &["-e", calls, "-o", file, "--"]].concat()
}

/// Calls `each` for every line of a trace with the task and the text of a call that has ended, or of
/// another event, and removes the file. The traced program may have put anything in its place.
pub fn read(at: &Path, each: impl FnMut(&str, &str)) -> Result<(), ProbeError> {
    let own = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(own).open(at);
    let lines = file
        .and_then(bounded)
        .and_then(|file| lines(BufReader::new(file), each));
    lines.map_err(|e| ProbeError::io("read the trace", at, &e))?;
    let _ = fs::remove_file(at);
    Ok(())
}

/// The file, if it is a regular one that is not too large.
fn bounded(file: File) -> io::Result<File> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if found.len() > LARGEST {
        let text = format!("it has {} bytes, more than {LARGEST}", found.len());
        return Err(io::Error::other(text));
    }
    Ok(file)
}

/// Reads strace's lines, `PID NAME(ARGUMENTS) = RESULT`, and joins those that were split.
pub fn lines(mut from: impl BufRead, mut each: impl FnMut(&str, &str)) -> io::Result<()> {
    let mut open: BTreeMap<String, String> = BTreeMap::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if Read::take(&mut from, LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&line);
        let Some((task, text)) = line.trim_end().split_once(' ') else {
            continue;
        };
        let text = text.trim_start();
        let joined = text.strip_prefix("<... ").and_then(|rest| {
            let (_, rest) = rest.split_once(" resumed>")?;
            Some(open.remove(task)? + rest)
        });
        if let Some(begun) = text.strip_suffix("<unfinished ...>") {
            open.insert(task.to_owned(), begun.trim_end().to_owned());
        }
        each(task, &joined.map_or(Cow::Borrowed(text), Cow::Owned));
    }
}

/// A call that has ended.
#[derive(Debug, PartialEq)]
pub struct Call<'a> {
    pub name: &'a str,
    /// As strace writes them.
    pub arguments: Vec<&'a str>,
    /// What follows `= `.
    pub result: &'a str,
}

impl<'a> Call<'a> {
    pub fn read(text: &'a str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        let (arguments, rest) = arguments(rest)?;
        let result = rest.trim_start().strip_prefix("= ")?;
        Some(Self {
            name,
            arguments,
            result,
        })
    }

    pub fn failed(&self) -> bool {
        self.result.starts_with(['-', '?'])
    }

    /// Whether an argument has a flag. Those of openat2(2) are in braces.
    pub fn has_flag(&self, argument: usize, flag: &str) -> bool {
        self.arguments.get(argument).is_some_and(|flags| {
            let mut words = flags.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            words.any(|word| word == flag)
        })
    }

    /// The text of an argument in quotes; `None` for `NULL`.
    pub fn quoted(&self, argument: usize) -> Option<String> {
        let text = self.arguments.get(argument)?.strip_prefix('"')?;
        let text = text.strip_suffix("...").unwrap_or(text);
        Some(unescaped(text.strip_suffix('"')?))
    }

    /// The path of a descriptor: of `3</a/b>`, and of `AT_FDCWD</a>`.
    pub fn descriptor(&self, argument: usize) -> Option<PathBuf> {
        let (_, path) = self.arguments.get(argument)?.split_once('<')?;
        let (path, _) = path.rsplit_once('>')?;
        path.starts_with('/')
            .then(|| PathBuf::from(unescaped(path)))
    }
}

/// Arguments up to the parenthesis that ends them, and what follows it. In texts and in paths of
/// descriptors any character may stand; their own end mark is escaped.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut all, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let mut within = None;
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match (c, within) {
            ('\\', Some(_)) => drop(characters.next()),
            (c, Some(end)) if c == end => within = None,
            ('"', None) => within = Some('"'),
            // Neither `<` of `1<<12`.
            ('<', None)
                if !text[..at].ends_with('<')
                    && text[at + 1..].starts_with(|c: char| c != '<' && c != ' ') =>
            {
                within = Some('>');
            }
            ('(' | '[' | '{', None) => depth += 1,
            (')', None) if depth == 0 => {
                all.push(text[start..at].trim());
                return Some((all, &text[at + 1..]));
            }
            (')' | ']' | '}', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                all.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// A text as it was before strace escaped it: `\n`, `\"`, and bytes in octal.
fn unescaped(text: &str) -> String {
    let (mut all, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        let next = more.first().copied();
        if byte != b'\\' || next.is_none() {
            all.push(byte);
            continue;
        }
        let octal = more
            .iter()
            .take(3)
            .take_while(|b| (b'0'..=b'7').contains(b))
            .count();
        if octal > 0 {
            let value = more[..octal]
                .iter()
                .fold(0_u32, |sum, b| sum * 8 + u32::from(b - b'0'));
            all.push(value as u8);
            rest = &more[octal..];
            continue;
        }
        all.extend(next.map(|escaped| match escaped {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            other => other,
        }));
        rest = &more[1..];
    }
    String::from_utf8_lossy(&all).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_of_limited_size_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let error = |at: &Path| bounded(File::open(at).unwrap()).unwrap_err().to_string();
        assert_eq!(error(dir.path()), "it is not a file");
        let at = dir.path().join("trace");
        let file = File::create(&at).unwrap();
        file.set_len(LARGEST).unwrap();
        assert!(bounded(File::open(&at).unwrap()).is_ok());
        file.set_len(LARGEST + 1).unwrap();
        assert!(error(&at).ends_with("more than 268435456"));
    }
}
