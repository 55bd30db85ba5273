//! Errors of commands: message, hint and exit code.

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
};

use layermark_model::WrongParam;

use crate::{
    limits,
    say::{say, short},
};

/// Exit codes, as documented in `docs/src/reference.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Any other error: an I/O error, a bug.
    Failed = 1,
    /// The request is impossible.
    Usage = 2,
    /// A layer could not be set up.
    Layer = 3,
    /// There is a result, but it is not trustworthy.
    Untrusted = 4,
    /// Ctrl-C or SIGTERM: the results so far were reported, and the run can be resumed.
    Stopped = 130,
}

/// The exit codes of all commands, and what each means.
pub const CODES: &[(u8, &str)] = &[
    (0, "done"),
    (
        Code::Failed as u8,
        "a gate failed, a layer lost what it had acknowledged, or an I/O error",
    ),
    (
        Code::Usage as u8,
        "usage: a flag, a plan, a layer, a file or a directory that cannot be used, a budget that is too small",
    ),
    (
        Code::Layer as u8,
        "a requested layer could not be set up, or a program that the work starts is missing",
    ),
    (
        Code::Untrusted as u8,
        "there is a result, and it is not trustworthy",
    ),
    (
        Code::Stopped as u8,
        "stopped by Ctrl-C or SIGTERM; the results so far were reported",
    ),
];

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// An error to be shown to the user.
#[derive(Debug)]
pub struct Failure {
    /// What failed, with the layer and the path.
    pub message: String,
    /// The parameter of a workload that is wrong: the message names it first.
    pub param: Option<WrongParam>,
    /// A command that helps.
    pub hint: Option<String>,
    /// The exit code.
    pub code: Code,
}

impl Failure {
    /// A usage error (exit code 2).
    pub fn usage(message: impl fmt::Display) -> Self {
        Self {
            message: message.to_string(),
            param: None,
            hint: None,
            code: Code::Usage,
        }
    }

    /// Any other error (exit code 1).
    pub fn failed(message: impl fmt::Display) -> Self {
        Self {
            message: message.to_string(),
            param: None,
            hint: None,
            code: Code::Failed,
        }
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Names the wrong parameter as the user gave it, where `name` knows how.
    pub fn of_param(mut self, name: impl FnOnce(&WrongParam) -> Option<String>) -> Self {
        let renamed = self.param.as_ref().and_then(|param| {
            let what = self.message.strip_prefix(&param.to_string())?;
            Some(name(param)? + what)
        });
        // The help of a workload does not have the flag of another command.
        let help = self.param.as_ref().map(WrongParam::help);
        self.hint = self
            .hint
            .filter(|hint| renamed.is_none() || help.as_ref() != Some(hint));
        self.message = renamed.unwrap_or(self.message);
        self
    }

    /// Replaces keys such as `file_size` with their flags, such as `--file-size`, for keys that
    /// were given as flags.
    pub fn with_flags<'a>(mut self, keys: impl IntoIterator<Item = &'a str>) -> Self {
        for key in keys {
            let (key, flag) = (format!("`{key}`"), format!("`--{}`", key.replace('_', "-")));
            self.message = self.message.replace(&key, &flag);
            self.hint = self.hint.map(|hint| hint.replace(&key, &flag));
        }
        self
    }

    /// Adds a hint, if a usage error has none.
    pub fn or_hint(self, hint: impl FnOnce() -> String) -> Self {
        if self.code == Code::Usage && self.hint.is_none() {
            return self.hint(hint());
        }
        self
    }

    /// Prints the error on standard error, and with `json` also an object on standard output.
    /// Returns the exit code.
    pub fn print(&self, json: bool) -> ExitCode {
        let (message, hint) = in_full(&self.message, self.hint.as_deref());
        say(format!("error: {message}"));
        if let Some(hint) = &hint {
            say(format!("hint: {hint}"));
        }
        if json {
            let error = serde_json::json!({
                "schema": "layermark.error/1", "error": short(&message), "hint": hint.as_deref().map(short), "code": self.code as u8,
            });
            // Standard error may be closed; the exit code still reports the failure.
            let _ = writeln!(io::stdout(), "{error}");
        }
        self.code.into()
    }
}

/// A message and its hint, with the limit that was reached if the kernel refused a process or thread.
pub fn in_full(message: &str, hint: Option<&str>) -> (String, Option<String>) {
    match limits::ran_out(message) {
        Some((why, hint)) => (format!("{message}: {why}"), Some(hint)),
        None => (message.to_owned(), hint.map(str::to_owned)),
    }
}
