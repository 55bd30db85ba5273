//! What a program had open when strace attached to it, as lines that strace would have written had it been there.

use std::fmt::Write as _;

/// A process that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Running {
    /// Its number.
    pub pid: u32,
    /// Numbers of its other threads.
    pub threads: Vec<u32>,
    /// Its current directory.
    pub cwd: Vec<u8>,
    /// Its open files and directories.
    pub files: Vec<OpenFile>,
}

/// A descriptor of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    /// Its number.
    pub descriptor: u32,
    /// Absolute path of the file.
    pub path: Vec<u8>,
    /// Flags in the words of open(2): `O_RDWR|O_APPEND`.
    pub flags: String,
    /// Where it is read and written next, bytes.
    pub position: u64,
}

/// Lines of strace that make these processes out of nothing: they come before those of a log.
pub fn lines_of(processes: &[Running]) -> String {
    let mut lines = String::new();
    for process in processes {
        let pid = process.pid;
        let _ = writeln!(lines, "{pid} chdir(\"{}\") = 0", escaped(&process.cwd));
        for OpenFile {
            descriptor,
            path,
            flags,
            position,
        } in &process.files
        {
            let path = escaped(path);
            let _ = writeln!(
                lines,
                "{pid} openat(AT_FDCWD, \"{path}\", {flags}) = {descriptor}<{path}>"
            );
            if *position > 0 {
                let _ = writeln!(
                    lines,
                    "{pid} lseek({descriptor}<{path}>, {position}, SEEK_SET) = {position}"
                );
            }
        }
        for thread in &process.threads {
            let _ = writeln!(
                lines,
                "{pid} clone(child_stack=0x1, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD) = {thread}"
            );
        }
    }
    lines
}

/// A path as strace escapes it: octal, where it is more than letters, digits and a few signs.
fn escaped(path: &[u8]) -> String {
    let mut text = String::new();
    for byte in path {
        if byte.is_ascii_alphanumeric() || b"/._-+=@%:,~ ".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "\\{byte:03o}");
        }
    }
    text
}
