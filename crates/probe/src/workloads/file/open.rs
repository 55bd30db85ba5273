//! Opens the file of a pass. Explains the error when a file system refuses it.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use layermark_model::Defect;
use rustix::fs::Advice;

use super::params::{FileParams, Op, Sync};
use crate::{
    ProbeError,
    error::{shown, without_shared_mappings},
    files::direct_refused,
};

/// Opens the file of a pass for this operation.
pub fn open(p: &FileParams, op: Op, path: &Path) -> io::Result<File> {
    let writes = op.writes();
    let direct = if p.direct { libc::O_DIRECT } else { 0 };
    let append = if op == Op::Append { libc::O_APPEND } else { 0 };
    let sync = match p.sync {
        Sync::Osync if writes => libc::O_SYNC,
        Sync::Odsync if writes => libc::O_DSYNC,
        _ => 0,
    };
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(writes)
        .custom_flags(direct | append | sync);
    if op.makes() {
        options.create_new(true);
    }
    options.open(path)
}

/// Advice to the kernel about the order, if any.
pub fn advice(p: &FileParams, op: Op) -> Option<Advice> {
    op.advice().filter(|_| !p.no_advice)
}

/// Advises the kernel before the clock starts, and after the file was read to warm it up: without
/// readahead the cache would fill with single pages. A refusal does not matter.
pub fn advise(p: &FileParams, op: Op, file: &File) {
    if let Some(advice) = advice(p, op) {
        let _ = rustix::fs::fadvise(file, 0, None, advice);
    }
}

pub fn refused(p: &FileParams, path: &Path, what: &str, error: &io::Error) -> ProbeError {
    if let Some(refused) = direct_refused(path, what, error).filter(|_| p.direct) {
        return refused;
    }
    // 9p without a cache maps files to read, and refuses a shared mapping to write with EINVAL.
    let shared = if what == "read" { "" } else { "shared " };
    let error_of_map = |errno| errno == libc::ENODEV || errno == libc::EINVAL && !shared.is_empty();
    if p.engine == "mmap" && error.raw_os_error().is_some_and(error_of_map) {
        return ProbeError {
            message: format!(
                "the file system of {} has no {shared}mappings of files ({error})",
                shown(path)
            ),
            hint: None,
            errno: error.raw_os_error(),
            defect: Some(Defect::Lacks),
        }
        .hint(without_shared_mappings(
            "use another engine for this layer: --engine pread",
        ));
    }
    ProbeError::io(what, path, error)
}
