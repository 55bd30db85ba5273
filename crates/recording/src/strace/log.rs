//! Lines of a log, and the calls in them.

use std::{
    borrow::Cow,
    collections::HashMap,
    io::{BufRead, Read},
};

use super::lex::{self, Line};

/// Longest line that is read, bytes: of `strace -s 255` with 255 buffers, each byte up to four characters long.
pub(super) const LONGEST: u64 = 512 << 10;

/// What a line shows of its task.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A call has begun, and ends in a later line.
    Begun(&'a str),
    /// A call has ended.
    Ended {
        /// The call, also if its begin was another line.
        text: Cow<'a, str>,
        /// Whether it was.
        resumed: bool,
    },
    /// The task has ended.
    Exited,
}

/// Calls that have begun and not ended, by task.
#[derive(Debug, Default)]
pub(super) struct Unfinished(HashMap<u32, String>);

impl Unfinished {
    /// What a line shows; `None` of a signal, and of the end of a call whose begin was not seen.
    pub fn event<'a>(&mut self, line: &Line<'a>) -> Option<Event<'a>> {
        let text = line.text;
        if let Some(rest) = text.strip_prefix("<... ") {
            let (begun, (_, rest)) = self
                .0
                .remove(&line.task)
                .zip(rest.split_once(" resumed>"))?;
            return Some(Event::Ended {
                text: Cow::Owned(begun + rest),
                resumed: true,
            });
        }
        if let Some(begun) = text.strip_suffix("<unfinished ...>") {
            let begun = begun.trim_end();
            self.0.insert(line.task, begun.to_owned());
            return Some(Event::Begun(begun));
        }
        if text.starts_with("+++ ") {
            return Some(Event::Exited);
        }
        (!text.starts_with("---")).then_some(Event::Ended {
            text: Cow::Borrowed(text),
            resumed: false,
        })
    }
}

/// Calls `each` with every line, and with `None` for one that is too long.
pub(super) fn lines(
    mut log: impl BufRead,
    mut each: impl FnMut(Option<&Line<'_>>) -> Result<(), String>,
) -> Result<(), String> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = log.by_ref().take(LONGEST).read_until(b'\n', &mut line);
        if read.map_err(|e| e.to_string())? == 0 {
            return Ok(());
        }
        if line.len() as u64 == LONGEST && !line.ends_with(b"\n") {
            // What follows may be data that looks like a call.
            log.skip_until(b'\n').map_err(|e| e.to_string())?;
            each(None)?;
        } else if let Some(line) = lex::split(&String::from_utf8_lossy(&line)) {
            each(Some(&line))?;
        }
    }
}

/// Calls `each` with the events of every task in their order, for those who need no recording. Lines that are too long
/// are left out.
///
/// # Errors
/// If the log cannot be read.
pub fn events(log: impl BufRead, mut each: impl FnMut(u32, &Event<'_>)) -> Result<(), String> {
    let mut unfinished = Unfinished::default();
    lines(log, |line| {
        let event = line.and_then(|line| Some((line.task, unfinished.event(line)?)));
        if let Some((task, event)) = event {
            each(task, &event);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_two_lines_are_joined() {
        let too_long = format!("3 write(1, \"{}\"\n", "x".repeat(LONGEST as usize));
        let log = format!(
            "1 stat(\"a\",  <unfinished ...>\n2 --- SIGCHLD {{}} ---\n{too_long}2 close(3) = 0\n\
             1 <... stat resumed>0x7) = 0\n2 <... read resumed>) = 0\n\n2 +++ exited with 0 +++\n"
        );
        let mut seen = Vec::new();
        let shown = |task: u32, event: &Event<'_>| {
            seen.push(match event {
                Event::Begun(text) => format!("{task} begins {text}"),
                Event::Ended { text, resumed } => format!("{task} {text} {resumed}"),
                Event::Exited => format!("{task} exits"),
            });
        };
        events(log.as_bytes(), shown).unwrap();
        let expected = [
            "1 begins stat(\"a\",",
            "2 close(3) = 0 false",
            "1 stat(\"a\",0x7) = 0 true",
            "2 exits",
        ];
        assert_eq!(seen, expected);
    }
}
