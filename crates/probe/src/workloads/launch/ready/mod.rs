//! Conditions for a program to be ready. Each has its own file and a line here.

use std::{
    os::fd::BorrowedFd,
    path::{Path, PathBuf},
};

use layermark_model::{PointError, nearest};

use super::display::Display;
use crate::programs::spawn::Program;
use crate::{ProbeError, clock::monotonic_ns};

mod exit;
mod file;
mod http;
mod notify;
mod output;
mod port;
mod window;

/// A condition for a program to be ready.
pub trait ReadyKind: Sync {
    /// The word before `=`.
    fn id(&self) -> &'static str;
    /// The part after `=`, for help; empty when there is none.
    fn value(&self) -> &'static str;
    /// Whether it can be left out.
    fn optional(&self) -> bool {
        self.value().is_empty()
    }
    /// Checks the part after `=`. The error says what is required.
    fn check(&self, _value: &str) -> Result<(), String> {
        Ok(())
    }
    /// Whether it needs an X server.
    fn needs_display(&self) -> bool {
        false
    }
    /// Delay between the event and its detection on an idle machine, nanoseconds.
    fn error_ns(&self) -> u64 {
        WAKE_NS
    }
    /// Prepares the detection, and adds to the command what it needs for it.
    fn arm(&self, value: &str, scene: &mut Scene<'_>) -> Result<Box<dyn Ready>, ProbeError>;
}

/// Maximum number of reads per check: a program that never stops printing would keep the clock from
/// being checked.
const MOST: usize = 16;

/// Delay of waking up on an event, ns.
pub const WAKE_NS: u64 = 100_000;

/// A program that is about to be started.
pub struct Scene<'a> {
    /// The program, to which pipes and variables can be added.
    pub command: &'a mut Program,
    /// Its root, if it does not see the whole tree.
    pub root: Option<&'a Path>,
    /// Its working directory, as it sees it.
    pub dir: &'a Path,
    /// The X server, when the condition needs one.
    pub display: Option<&'a Display>,
}

impl Scene<'_> {
    /// A path of the program, as this process sees it.
    pub fn path(&self, path: &str) -> PathBuf {
        let inside = self.dir.join(path);
        match self.root {
            Some(root) => root.join(inside.strip_prefix("/").unwrap_or(&inside)),
            None => inside,
        }
    }
}

/// A program being watched.
pub trait Ready {
    /// File descriptors to wait for; [`Ready::look`] is called when one of them is readable.
    fn fds(&self) -> Vec<BorrowedFd<'_>>;
    /// Interval of additional checks, nanoseconds, for conditions without an event.
    fn every_ns(&self) -> Option<u64> {
        None
    }
    /// Whether the program is ready, and since when.
    fn look(&mut self) -> Result<Option<ReadyEvent>, ProbeError>;
    /// Whether the end of the program is the condition.
    fn is_exit(&self) -> bool {
        false
    }
}

/// The event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyEvent {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub at_ns: u64,
    /// Title of the window.
    pub window: Option<String>,
}

impl ReadyEvent {
    /// An event at this moment.
    fn now() -> Self {
        Self {
            at_ns: monotonic_ns(),
            window: None,
        }
    }
}

/// Every condition.
pub const ALL: &[&dyn ReadyKind] = &[
    &exit::Exit,
    &output::Output::STDOUT,
    &output::Output::STDERR,
    &port::Port,
    &http::Http,
    &file::File,
    &notify::Notify,
    &window::Window,
    &window::Content,
    &window::Settled,
];

/// Reads `port=8080`, `window`, ...: the condition and the part after `=`.
pub fn parse(text: &str) -> Result<(&'static dyn ReadyKind, &str), PointError> {
    let (id, value) = text.split_once('=').unwrap_or((text, ""));
    let Some(kind) = ALL.iter().copied().find(|k| k.id() == id) else {
        let ids = ALL.iter().map(|k| k.id());
        let error = PointError::of("launch", "ready", format!(" = {text}: no such condition"));
        return Err(match nearest(id, ids.clone()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!("known are {}", ids.collect::<Vec<_>>().join(", "))),
        });
    };
    let wrong = |must: String| {
        let form = match kind.value() {
            "" => id.to_owned(),
            value => format!("{id}={value}"),
        };
        Err(
            PointError::of("launch", "ready", format!(" = {text}: {must}"))
                .hint(format!("write {form}")),
        )
    };
    if kind.value().is_empty() && text.contains('=') {
        return wrong("it takes no value".into());
    }
    if value.is_empty() && !kind.optional() {
        return wrong("it needs a value".into());
    }
    if !value.is_empty()
        && let Err(must) = kind.check(value)
    {
        return wrong(must);
    }
    Ok((kind, value))
}

/// A regular expression, or a one-line error.
fn expression(text: &str) -> Result<regex::bytes::Regex, String> {
    let mut expression = regex::bytes::RegexBuilder::new(text);
    // `^` and `$` match at line ends: output is read line by line.
    expression.multi_line(true).crlf(true);
    expression.build().map_err(|e| {
        let text = e.to_string();
        text.lines().last().unwrap_or_default().trim().to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_is_listed() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/workloads/launch/ready");
        let helpers = ["mod", "output"]; // output.rs has stdout and stderr
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            assert!(
                helpers.contains(&name.as_str()) || ALL.iter().any(|k| k.id() == name),
                "add `&{name}::...` to ALL in ready/mod.rs"
            );
        }
    }

    #[test]
    fn reads_conditions_and_says_what_is_wrong() {
        for good in [
            "exit",
            "stdout=ready$",
            "stderr=.",
            "port=80",
            "port=::1:80",
            "http=http://127.0.0.1:8080/x",
            "file=/tmp/x",
            "notify",
            "window",
            "window=Login",
            "content",
            "settled=500",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for (bad, hint) in [
            ("exti", "did you mean `exit`?"),
            ("", "known are exit, stdout"),
            ("exit=0", "write exit"),
            ("stdout", "write stdout=REGEX"),
            ("stdout=(", "write stdout=REGEX"),
            ("port=0", "write port=[HOST:]N"),
            ("port=x", "write port=[HOST:]N"),
            ("http=ftp://x", "write http=URL"),
            ("settled=0", "write settled=MS"),
            ("window=(", "write window=TITLE"),
        ] {
            let e = parse(bad).err().unwrap_or_else(|| panic!("{bad}"));
            assert!(e.hint.unwrap().starts_with(hint), "{bad}");
        }
    }
}
