//! A recording, ready to be replayed.

use std::ffi::CString;

use layermark_recording::{Call, CallKind, OPEN_FLAGS, Pending, Recording};
use rustix::fs::OFlags;

use crate::ProbeError;

/// A call with the kernel's own flags.
pub struct ReadyCall {
    pub call: Call,
    /// Of `open`.
    pub flags: OFlags,
    /// How long its task computes before it, ns.
    pub think_ns: u64,
    /// Whether it reads an attribute that is not a user's: whether a file has one depends on the machine.
    pub of_machine: bool,
    /// Path of the file of calls on attributes, which have no variant that takes a descriptor. Set for each tree.
    pub whole: Option<CString>,
}

/// Everything that tasks share and do not change.
pub struct Trace {
    pub calls: Vec<ReadyCall>,
    /// Numbers of each task's calls.
    pub by_task: Vec<Vec<u32>>,
    pub names: Vec<CString>,
    /// Open files.
    pub files: usize,
    /// Bytes of each task's buffer for data.
    pub buffers: Vec<u64>,
    /// Bytes of each task's buffer for entries of directories.
    pub lists: Vec<u64>,
}

impl Trace {
    /// A recording that was checked. Its tasks compute for `think_ns` altogether.
    pub fn new(recording: &Recording, think_ns: u64) -> Result<Self, ProbeError> {
        let names = recording
            .names
            .iter()
            .map(|name| CString::new(name.0.clone()));
        let names = names.collect::<Result<_, _>>();
        let names =
            names.map_err(|_| ProbeError::new("the recording has a name with a zero byte"))?;
        let by_task = Pending::new(&recording.calls, recording.head.tasks as usize).by_task;
        let all: u64 = recording.calls.iter().map(|call| u64::from(call.gap)).sum();
        let part = |number: usize, call: &Call| match all {
            // Where it is not known, all tasks begin with all of it: no call is beside it.
            0 if by_task[call.task as usize].first() == Some(&(number as u32)) => think_ns,
            0 => 0,
            all => (u128::from(think_ns) * u128::from(call.gap) / u128::from(all)) as u64,
        };
        let numbered = recording.calls.iter().enumerate();
        let calls = numbered.map(|(number, call)| ReadyCall {
            call: call.clone(),
            think_ns: part(number, call),
            flags: if call.kind == CallKind::Open {
                open_flags(call.a)
            } else {
                OFlags::empty()
            },
            of_machine: call.kind.reads_xattr()
                && call.path2.is_some_and(|name| {
                    let name = &recording.names[name as usize];
                    !name.0.starts_with(b"user.")
                }),
            whole: None,
        });
        let calls = calls.collect();
        Ok(Self {
            calls,
            by_task,
            names,
            files: recording.head.files as usize,
            buffers: recording.buffers(),
            lists: recording.lists(),
        })
    }

    /// A call in words: its kind and names.
    pub fn words(&self, number: u32) -> String {
        let call = &self.calls[number as usize].call;
        let names = [call.path, call.path2].into_iter().flatten();
        let names = names.map(|name| format!(" {}", self.names[name as usize].to_string_lossy()));
        format!("{}{}", call.kind.id(), names.collect::<String>())
    }
}

/// Flags of a recording as this kernel's. Those that openat2(2) refuses beside `O_PATH` are left out, as open(2) ignores
/// them.
fn open_flags(bits: i64) -> OFlags {
    let kernel = [
        OFlags::WRONLY,
        OFlags::RDWR,
        OFlags::CREATE,
        OFlags::EXCL,
        OFlags::TRUNC,
        OFlags::APPEND,
        OFlags::NONBLOCK,
        OFlags::DSYNC,
        OFlags::SYNC,
        OFlags::DIRECT,
        OFlags::DIRECTORY,
        OFlags::NOFOLLOW,
        OFlags::NOATIME,
        OFlags::PATH,
        OFlags::TMPFILE,
    ];
    let known = OPEN_FLAGS.iter().zip(kernel);
    let set = known.filter(|(flag, _)| bits & i64::from(flag.bit) != 0);
    let flags = set.fold(OFlags::CLOEXEC, |all, (_, own)| all | own);
    if flags.contains(OFlags::PATH) {
        return flags & (OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC);
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_their_names() {
        let bit = |name: &str| {
            OPEN_FLAGS
                .iter()
                .find(|flag| flag.name == name)
                .unwrap()
                .bit
        };
        let of = |names: &[&str]| open_flags(names.iter().map(|name| i64::from(bit(name))).sum());
        assert_eq!(of(&[]), OFlags::RDONLY | OFlags::CLOEXEC);
        assert_eq!(
            of(&["O_WRONLY", "O_CREAT"]),
            OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC
        );
        assert_eq!(
            of(&["O_TMPFILE", "O_RDWR"]),
            OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC
        );
        assert_eq!(
            of(&["O_PATH", "O_NONBLOCK"]),
            OFlags::PATH | OFlags::CLOEXEC
        );
    }
}
