//! What a program had open when strace attached to it, as lines that strace would have written had it been there.

use std::fmt::Write as _;

/// A process that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Running {
    /// Its number.
    pub pid: u32,
    /// A process before it in the list from which it has descriptors.
    pub parent: Option<u32>,
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
    /// The process and descriptor before it that have the same open file, with one position: of this process, or of its
    /// `parent`.
    pub same_as: Option<(u32, u32)>,
    /// Absolute path of the file.
    pub path: Vec<u8>,
    /// Flags in the words of open(2): `O_RDWR|O_APPEND`.
    pub flags: String,
    /// Where it is read and written next, bytes.
    pub position: u64,
}

/// Numbers of descriptors from here on are not those of a program.
const BEYOND: u32 = 1 << 24;

/// Lines of strace that make these processes out of nothing: they come before those of a log.
pub fn lines_of(processes: &[Running]) -> String {
    let mut lines = String::new();
    for process in processes {
        let pid = process.pid;
        let parent = processes
            .iter()
            .find(|other| Some(other.pid) == process.parent);
        if let Some(parent) = parent {
            inherits(&mut lines, process, parent);
        }
        let _ = writeln!(lines, "{pid} chdir(\"{}\") = 0", escaped(&process.cwd));
        for file in &process.files {
            opens(&mut lines, pid, file);
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

/// A child that has of its parent's descriptors only those that it has kept, under its own numbers.
fn inherits(lines: &mut String, child: &Running, parent: &Running) {
    let pid = child.pid;
    let _ = writeln!(
        lines,
        "{} clone(child_stack=NULL, flags=SIGCHLD) = {pid}",
        parent.pid
    );
    let kept = child.files.iter().filter_map(|file| {
        let (_, old) = file.same_as.filter(|(of, _)| *of == parent.pid)?;
        Some((old, file))
    });
    for (old, file) in kept.clone() {
        duplicates(lines, pid, old, BEYOND + file.descriptor, file);
    }
    for file in &parent.files {
        let _ = writeln!(lines, "{pid} close({}) = 0", file.descriptor);
    }
    for (_, file) in kept {
        duplicates(lines, pid, BEYOND + file.descriptor, file.descriptor, file);
        let _ = writeln!(lines, "{pid} close({}) = 0", BEYOND + file.descriptor);
    }
}

fn duplicates(lines: &mut String, pid: u32, old: u32, new: u32, file: &OpenFile) {
    let path = escaped(&file.path);
    let flag = if file.flags.contains("O_CLOEXEC") {
        "O_CLOEXEC"
    } else {
        "0"
    };
    let _ = writeln!(
        lines,
        "{pid} dup3({old}<{path}>, {new}, {flag}) = {new}<{path}>"
    );
}

fn opens(lines: &mut String, pid: u32, file: &OpenFile) {
    let OpenFile {
        descriptor,
        same_as,
        flags,
        position,
        ..
    } = file;
    match same_as {
        Some((of, old)) if *of == pid => duplicates(lines, pid, *old, *descriptor, file),
        Some(_) => {}
        None => {
            let path = escaped(&file.path);
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
    }
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
