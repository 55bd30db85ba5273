//! How a command fails: what, what to do about it, and the exit code.

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
};

use crate::{args, say::say};

/// Exit codes, as documented in `docs/src/reference.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Something this page has no word for: an I/O error, a bug.
    Failed = 1,
    /// The request is impossible.
    Usage = 2,
    /// A layer could not be set up.
    Layer = 3,
    /// There is a result, and it is not trustworthy.
    Untrusted = 4,
    /// Ctrl-C or SIGTERM: the results so far were reported, and the run can be resumed.
    Stopped = 130,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// An error on its way to the user.
#[derive(Debug)]
pub struct Failure {
    /// What failed, with the layer and the path.
    pub message: String,
    /// A command to run.
    pub hint: Option<String>,
    /// What the process ends with.
    pub code: Code,
}

impl Failure {
    /// A mistake of the user's.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self {
            message: message.to_string(),
            hint: None,
            code: Code::Usage,
        }
    }

    /// Anything else.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self {
            message: message.to_string(),
            hint: None,
            code: Code::Failed,
        }
    }

    /// Adds what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says `--file-size` for each of these keys, such as `file_size`, which were given as flags.
    pub fn with_flags<'a>(mut self, keys: impl IntoIterator<Item = &'a str>) -> Self {
        for key in keys {
            let (key, flag) = (format!("`{key}`"), format!("`--{}`", key.replace('_', "-")));
            self.message = self.message.replace(&key, &flag);
            self.hint = self.hint.map(|hint| hint.replace(&key, &flag));
        }
        self
    }

    /// Names the flags of the command, where a mistake of the user's has no better hint.
    pub fn with_help(self, command: Option<&str>) -> Self {
        if self.code == Code::Usage && self.hint.is_none() {
            return self.hint(args::help_of(command));
        }
        self
    }

    /// Prints it: words to standard error, and an object to standard output where JSON was promised.
    pub fn print(&self, json: bool) -> ExitCode {
        say(format!("error: {}", self.message));
        if let Some(hint) = &self.hint {
            say(format!("hint: {hint}"));
        }
        if json {
            let error = serde_json::json!({
                "schema": "layermark.error/1", "error": self.message, "hint": self.hint, "code": self.code as u8,
            });
            // Standard error may be closed; the exit code still tells.
            let _ = writeln!(io::stdout(), "{error}");
        }
        self.code.into()
    }
}
