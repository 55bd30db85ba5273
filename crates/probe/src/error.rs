use std::{io, path::Path};

use layermark_model::{Defect, PointError};
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
    /// What the error shows about the layer.
    pub defect: Option<Defect>,
}

/// An error of a system call that says that the layer lacks the operation. It has words around it, and so no number of
/// its own.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
pub struct Lacking {
    /// What is refused.
    pub what: &'static str,
    /// The error.
    pub error: io::Error,
}

/// What an error shows about the layer, whatever was tried.
pub fn defect(error: &io::Error) -> Option<Defect> {
    // Locks alone have ENOLCK.
    let is_lock = error.raw_os_error() == Some(libc::ENOLCK);
    let lacks = matches!(error.get_ref(), Some(inner) if inner.is::<Lacking>());
    (is_lock || lacks).then_some(Defect::Lacks)
}

/// A path as the user knows it, if the process is in the layer's directory.
pub fn shown(path: &Path) -> String {
    let absolute = std::path::absolute(path);
    absolute.as_deref().unwrap_or(path).display().to_string()
}

impl ProbeError {
    /// An error that no system call reported.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            errno: None,
            defect: None,
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
            message: format!("cannot {what} {}: {}", shown(path), in_words(path, error)),
            hint: hint.map(str::to_owned),
            errno: error.raw_os_error(),
            defect: defect(error),
        }
    }

    /// Adds what it shows about the layer.
    #[must_use]
    pub fn shows(mut self, defect: Defect) -> Self {
        self.defect = Some(defect);
        self
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
            defect: None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_operation_itself_says_shows_that_the_layer_lacks_it() {
        let shown = |error: io::Error| {
            let error = ProbeError::io("look in", Path::new("/x"), &error);
            (error.message, error.defect)
        };
        let of = io::Error::from_raw_os_error;
        let none = "cannot look in /x: No locks available (os error 37)";
        assert_eq!(shown(of(libc::ENOLCK)), (none.into(), Some(Defect::Lacks)));
        assert_eq!(shown(of(libc::ENODEV)).1, None);
        let wrapped = io::Error::new(
            io::ErrorKind::InvalidInput,
            Lacking {
                what: "a shared mapping (mmap) is refused",
                error: of(libc::EINVAL),
            },
        );
        let refused =
            "cannot look in /x: a shared mapping (mmap) is refused: Invalid argument (os error 22)";
        assert_eq!(shown(wrapped), (refused.into(), Some(Defect::Lacks)));
        let other = io::Error::other("a shared mapping (mmap) is refused: it is full");
        assert_eq!(shown(other).1, None);
    }
}
