use std::{io, path::Path};

use layermark_model::PointError;
use layermark_sys::in_words;

/// Work that failed. The probe continues.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProbeError {
    /// What failed, with the path.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// `errno`, when the kernel gave one.
    pub errno: Option<i32>,
}

impl ProbeError {
    /// An error that no system call reported.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            errno: None,
        }
    }

    /// A system call on a path that failed: `cannot write /x/y: No space left on device`.
    pub fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        let hint = match error.raw_os_error() {
            Some(libc::ENOSPC) => {
                Some("make room or choose another place with --dir; `df -h` shows the free space")
            }
            Some(libc::EDQUOT) => {
                Some("the quota is used up: `quota` shows it; choose another place with --dir")
            }
            Some(libc::EROFS) => {
                Some("the layer is read only: leave out the operations that write")
            }
            Some(libc::EACCES | libc::EPERM) => Some("check who may use the directory: `ls -ld`"),
            Some(libc::EMFILE | libc::ENFILE) => {
                Some("use fewer threads, or raise the limit with `ulimit -n`")
            }
            _ => None,
        };
        Self {
            message: format!(
                "cannot {what} {}: {}",
                path.display(),
                in_words(path, error)
            ),
            hint: hint.map(str::to_owned),
            errno: error.raw_os_error(),
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What to do where the file system refuses a shared mapping (mmap(2) with `MAP_SHARED`) of a file to write, as 9p
/// does without a cache (EINVAL) and file systems in user space with direct I/O (ENODEV).
pub fn without_shared_mappings(instead: &str) -> String {
    format!(
        "{instead}; a 9p share has shared mappings with `cache=mmap` (-l vm:share=9p,cache=mmap)"
    )
}

impl From<PointError> for ProbeError {
    fn from(e: PointError) -> Self {
        Self {
            message: e.message,
            hint: e.hint,
            errno: None,
        }
    }
}

/// A panic in our code, reported as an error.
pub fn panicked(panic: &(dyn std::any::Any + Send)) -> ProbeError {
    let text = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "unknown panic".into());
    ProbeError::new(format!("the probe has a bug: {text}"))
        .hint("please report it with the plan that was run")
}
