use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use layermark_model::Missing;

use crate::{child, of_host::is_of_host, options};

/// An error of a layer. [`LayerError::hint`] says what the user can do about it.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// No layer has this name.
    #[error("unknown layer `{name}`{}", did_you_mean(nearest.as_deref()))]
    UnknownLayer {
        /// As the user wrote it.
        name: String,
        /// The most similar known name.
        nearest: Option<String>,
    },
    /// The layer has no such option. The error lists those it has.
    #[error("layer `{layer}` has no option `{option}`{}", did_you_mean(nearest.as_deref()))]
    UnknownOption {
        /// The layer.
        layer: String,
        /// As the user wrote it.
        option: String,
        /// The most similar known option.
        nearest: Option<String>,
        /// Every option it has.
        known: Vec<&'static str>,
    },
    /// The layer is to be on another one, or in a directory of its own.
    #[error("layer `{layer}` cannot be set up on `{below}`: every layer is set up below --dir")]
    OnAnother {
        /// The layer, without the option that says so.
        layer: String,
        /// The other layer, or the directory.
        below: String,
    },
    /// Two layers in one.
    #[error("layer `{layer}` names two layers")]
    TwoLayers {
        /// As the user wrote them.
        layer: String,
        /// Both.
        both: [String; 2],
    },
    /// The option or variant does not accept this value.
    #[error("layer `{layer}`: {option}{} {must}{}", quoted(value), did_you_mean(nearest.as_deref()))]
    BadValue {
        /// The layer.
        layer: String,
        /// The option, or `variant`.
        option: String,
        /// As the user wrote it.
        value: String,
        /// The requirement, as the rest of a sentence.
        must: String,
        /// The most similar known value.
        nearest: Option<String>,
    },
    /// Its network does not reach the other end.
    #[error("layer `{layer}` {why}")]
    NoNetwork {
        /// The layer.
        layer: String,
        /// The reason.
        why: String,
        /// A command or an option that may help.
        hint: String,
    },
    /// This host lacks something.
    #[error("layer `{layer}` needs {}", list(missing))]
    Missing {
        /// The layer.
        layer: String,
        /// The missing programs, modules or rights, each with a command that provides it.
        missing: Vec<Missing>,
    },
    /// A system call failed.
    #[error("layer `{layer}`: {what} {}: {source}", path.display())]
    Io {
        /// The layer.
        layer: String,
        /// The action, such as `mount overlay on`.
        what: String,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A program that the layer needs failed.
    #[error("layer `{layer}`: {program} failed ({status}){}", tail_text(tail))]
    Program {
        /// The layer.
        layer: String,
        /// The program.
        program: String,
        /// Its exit status.
        status: String,
        /// The last lines it printed.
        tail: Vec<String>,
    },
    /// A virtual machine did not carry out a request.
    #[error(
        "layer `{layer}`: the guest could not {what} ({status}){}",
        tail_text(tail)
    )]
    Guest {
        /// The layer.
        layer: String,
        /// The request, such as `boot`.
        what: String,
        /// The guest's error, or the exit status of QEMU.
        status: String,
        /// The last lines of QEMU and of the guest's console.
        tail: Vec<String>,
    },
    /// A place could not be entered, or its agent did not carry out a request.
    #[error("layer `{layer}`: {what}{}", tail_text(tail))]
    Entered {
        /// The layer.
        layer: String,
        /// What failed, as the rest of a sentence.
        what: String,
        /// The last lines that its command printed.
        tail: Vec<String>,
        /// What may help.
        hint: Option<String>,
    },
    /// A guest's clock is too inaccurate to measure with.
    #[error(
        "layer `{layer}`: the guest's clock ran {percent:+.2} % against this host's over {over:.1?}"
    )]
    Clock {
        /// The layer.
        layer: String,
        /// Deviation from this host's clock, %; positive: too fast.
        percent: f64,
        /// Duration of the comparison.
        over: Duration,
    },
    /// A helper did not start or end in time.
    #[error("layer `{layer}`: {what} not done after {} s{}", after.as_secs_f64(), tail_text(tail))]
    Slow {
        /// The layer.
        layer: String,
        /// What was waited for, as the rest of a sentence.
        what: String,
        /// The time limit.
        after: Duration,
        /// The last lines the helper printed.
        tail: Vec<String>,
    },
    /// A file system does not answer: its server or its disk has failed.
    #[error("layer `{layer}`: {} did not answer for {} s", path.display(), after.as_secs_f64())]
    Silent {
        /// The layer.
        layer: String,
        /// Its directory.
        path: PathBuf,
        /// The time limit.
        after: Duration,
    },
    /// Another file system is mounted there, so the trial would have measured that one.
    #[error("layer `{layer}`: {} is {found} and not {expected}: the layer is not there", path.display())]
    NotMounted {
        /// The layer.
        layer: String,
        /// The directory.
        path: PathBuf,
        /// File system that must be mounted there.
        expected: String,
        /// File system that is mounted there.
        found: String,
    },
    /// Too little space or memory.
    #[error("layer `{layer}` needs {needed} bytes of {what}, {free} are free ({})", path.display())]
    NoSpace {
        /// The layer.
        layer: String,
        /// `disk` or `memory`.
        what: &'static str,
        /// Bytes needed.
        needed: u64,
        /// Bytes available.
        free: u64,
        /// The directory.
        path: PathBuf,
    },
    /// Another run uses the same directory.
    #[error("another layermark run is at work in {}", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// The directory cannot be used.
    #[error("{}cannot work in {}: {why}", of(layer.as_deref()), path.display())]
    BadDir {
        /// The layer that uses it; `None` for the directory of `--dir`.
        layer: Option<String>,
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// Other users could replace a directory on the path.
    #[error("cannot work in {}: {} can be changed by other users", path.display(), by.display())]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// The directory they could replace: it, or one above it.
        by: PathBuf,
    },
    /// Setting up the private mount namespace failed part-way.
    #[error("private mount namespace: {what}: {source}")]
    Sandbox {
        /// The step.
        what: String,
        /// The cause.
        source: io::Error,
    },
}

impl LayerError {
    /// The error without the layer's name.
    pub fn reason(&self) -> String {
        let text = self.to_string();
        let named = text.strip_prefix("layer `").and_then(|t| t.split_once('`'));
        match named {
            Some((_, what)) => match what.strip_prefix(": ") {
                Some(what) => what.to_owned(),
                None => format!("it{what}"),
            },
            None => text,
        }
    }

    /// Whether this host could not do it, whatever the layer is: it lacks something, or has no more of it. See
    /// [`is_of_host`].
    pub fn is_of_host(&self) -> bool {
        match self {
            Self::Missing { .. } | Self::NoSpace { .. } | Self::Sandbox { .. } => true,
            Self::Io { source, .. } => is_of_host(source),
            _ => false,
        }
    }

    /// What the user can do about it, with a command if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownLayer { name, .. } => Some(
                options::instead(name).unwrap_or_else(|| "what there is: layermark layers".into()),
            ),
            Self::UnknownOption { layer, known, .. } if known.is_empty() => {
                Some(format!("`{layer}` takes no options"))
            }
            Self::UnknownOption { layer, known, .. } => Some(format!(
                "`{layer}` takes {}: layermark layers {layer}",
                known.join(", ")
            )),
            Self::OnAnother { layer, below } => Some(on_another(layer, below)),
            Self::TwoLayers { both: [a, b], .. } => Some(format!(
                "to compare them: -l {a} -l {b}; to have one on the other, name a directory on it with --dir: \
                 layermark docs howto/file-systems"
            )),
            Self::NoNetwork { hint, .. } => Some(hint.clone()),
            Self::Entered { hint, .. } => hint.clone(),
            Self::BadValue { value, .. } if options::ONLY_MOUNTED.contains(&value.as_str()) => {
                Some(format!("where {value} is mounted already: -l dir:DIR"))
            }
            Self::BadValue { layer, .. } => {
                let id = layer.split([':', ',']).next().unwrap_or(layer);
                Some(format!("what it takes: layermark layers {id}"))
            }
            Self::Missing { missing, .. } => {
                let hints: Vec<&str> = missing.iter().map(|m| m.hint.as_str()).collect();
                Some(hints.join("; "))
            }
            Self::Busy { .. } => {
                Some("wait for it to end, or choose another directory with --dir".into())
            }
            Self::BadDir { layer, .. } => {
                let option = layer.as_ref().map_or("--dir DIR", |_| "-l dir:DIR");
                Some(format!("name a directory that you may write to: {option}"))
            }
            Self::Exposed { by, .. } => Some(format!(
                "choose a directory that only you and root can change, or: chmod go-w {}",
                by.display()
            )),
            Self::NoSpace { what: "disk", .. } => {
                Some("free some space, choose another directory with --dir, or use --scale".into())
            }
            Self::NoSpace { .. } => Some("use --scale to make files smaller".into()),
            Self::Io { source, .. } => io_hint(source),
            Self::Guest { .. } => Some(
                "more memory or another kernel may help: memory=1G, kernel=/boot/vmlinuz-..."
                    .into(),
            ),
            Self::Clock { .. } => {
                Some("free this host's CPUs, or give the guest fewer: cpus=1".into())
            }
            Self::Silent { .. } => {
                Some("see whether its server is alive, or wait longer: --silence 5m".into())
            }
            // A program that takes files in, such as mksquashfs: more time would be needed for each set-up.
            Self::Slow { after, .. } if *after >= child::LIMIT => {
                Some("make the files that it takes in fewer and smaller: --scale 0.1".into())
            }
            Self::Slow { .. } | Self::Program { .. } | Self::NotMounted { .. } => None,
            Self::Sandbox { .. } => Some("run it as root: sudo layermark ...".into()),
        }
    }

    /// Whether it is the user's mistake (exit code 2) and not the machine's (exit code 3).
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::UnknownLayer { .. }
                | Self::UnknownOption { .. }
                | Self::OnAnother { .. }
                | Self::TwoLayers { .. }
                | Self::BadValue { .. }
                | Self::NoNetwork { .. }
                | Self::BadDir { .. }
                | Self::Exposed { .. }
                | Self::Busy { .. }
        )
    }

    /// Wraps an I/O error with the layer, the action and the path.
    pub(crate) fn io(
        layer: &str,
        what: &str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> Self + use<> {
        let (layer, what, path) = (layer.to_owned(), what.to_owned(), path.to_owned());
        move |source| Self::Io {
            source: match source.kind() {
                io::ErrorKind::StorageFull => {
                    io::Error::new(source.kind(), layermark_sys::in_words(&path, &source))
                }
                _ => source,
            },
            layer,
            what,
            path,
        }
    }
}

/// How a layer is measured on another file system: its directory has to be there before.
fn on_another(layer: &str, below: &str) -> String {
    let run = |dir: &str| format!("layermark run -l {} --dir {dir}", shell_words::quote(layer));
    if below.contains('/') && !below.contains(':') {
        return run(&shell_words::quote(below));
    }
    format!(
        "name a directory on it: {}; layermark docs howto/file-systems",
        run("DIR")
    )
}

fn io_hint(e: &io::Error) -> Option<String> {
    match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("free some space, or choose another directory with --dir".into())
        }
        io::ErrorKind::PermissionDenied => {
            Some("choose a directory that you may write to with --dir, or run it with sudo".into())
        }
        // From a FUSE file system whose server has ended.
        io::ErrorKind::NotConnected | io::ErrorKind::ConnectionAborted => Some(
            "its server has ended: see why: dmesg | tail; then set it up again: layermark run --resume RUN"
                .into(),
        ),
        io::ErrorKind::ReadOnlyFilesystem => Some("choose a writable directory with --dir".into()),
        _ => None,
    }
}

fn of(layer: Option<&str>) -> String {
    layer.map_or(String::new(), |layer| format!("layer `{layer}`: "))
}

fn quoted(value: &str) -> String {
    if value.is_empty() {
        return String::new();
    }
    format!(" `{value}`")
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest
        .map(|n| format!(": did you mean `{n}`?"))
        .unwrap_or_default()
}

fn list(missing: &[Missing]) -> String {
    let names: Vec<&str> = missing.iter().map(|m| m.what.as_str()).collect();
    names.join(" and ")
}

fn tail_text(tail: &[String]) -> String {
    let mut text = String::new();
    for line in tail {
        let _ = write!(text, "\n  {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop device that was not free was told as a loss of the layer.
    #[test]
    fn what_this_host_lacks_is_told_from_an_error_of_the_layer() {
        let io = |e: io::Error| LayerError::io("loop:xfs", "mount", Path::new("/x"))(e);
        for ours in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN] {
            assert!(
                io(io::Error::from_raw_os_error(ours)).is_of_host(),
                "{ours}"
            );
        }
        // A full disk may be the layer's own.
        for layers in [
            libc::EINVAL,
            libc::EIO,
            libc::EUCLEAN,
            libc::ENOENT,
            libc::ENOSPC,
        ] {
            assert!(
                !io(io::Error::from_raw_os_error(layers)).is_of_host(),
                "{layers}"
            );
        }
        let none = crate::loopdev::NoDevice(io::Error::from_raw_os_error(libc::EBUSY));
        let none = io(io::Error::new(io::ErrorKind::ResourceBusy, none));
        assert!(none.is_of_host());
        assert!(
            none.reason().contains("no loop device"),
            "{}",
            none.reason()
        );
        let lacks = LayerError::Missing {
            layer: "fuse".into(),
            missing: Vec::new(),
        };
        assert!(lacks.is_of_host());
    }

    #[test]
    fn a_server_that_was_killed_is_no_lack_of_programs() {
        for gone in [rustix::io::Errno::NOTCONN, rustix::io::Errno::CONNABORTED] {
            let e = LayerError::io("fuse", "look for the mount at", Path::new("/x"))(gone.into());
            let hint = e.hint().unwrap();
            assert!(
                hint.contains("dmesg") && hint.contains("--resume"),
                "{hint}"
            );
        }
    }

    /// mksquashfs took longer than ten minutes, and nothing said what would help.
    #[test]
    fn a_set_up_that_takes_too_long_is_made_smaller() {
        let slow = |after| LayerError::Slow {
            layer: "image:squashfs".into(),
            what: "mksquashfs".into(),
            after,
            tail: Vec::new(),
        };
        let hint = slow(child::LIMIT).hint().unwrap();
        assert!(hint.contains("--scale"), "{hint}");
        // A server that does not start takes in no files.
        assert_eq!(slow(Duration::from_secs(20)).hint(), None);
    }

    #[test]
    fn a_reason_does_not_name_the_layer_again() {
        let missing = Missing {
            what: "qemu".into(),
            hint: "apt-get install qemu-system-x86".into(),
            installable: true,
        };
        let needs = LayerError::Missing {
            layer: "vm".into(),
            missing: vec![missing],
        };
        assert_eq!(needs.to_string(), "layer `vm` needs qemu");
        assert_eq!(needs.reason(), "it needs qemu");
        let dir = |layer| LayerError::BadDir {
            layer,
            path: "/x".into(),
            why: "it is a file".into(),
        };
        let without = "cannot work in /x: it is a file";
        assert_eq!(dir(Some("dir:/x".into())).reason(), without);
        assert_eq!(dir(None).reason(), without);
    }
}
