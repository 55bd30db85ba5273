//! Files that a replay has mapped, and page faults on them.

use std::{hint::black_box, os::fd::BorrowedFd, sync::RwLock};

use layermark_recording::{Call, CallKind};
use rustix::io::Errno;

use super::trace::{ReadyCall, Trace};
use crate::engines::mapping::Mapping;

/// A mapping of each open file, by its number; none if a recording maps nothing.
pub struct Mappings(Vec<RwLock<Option<Mapping>>>);

impl Mappings {
    pub fn new(trace: &Trace) -> Self {
        let maps = |ready: &ReadyCall| ready.call.kind == CallKind::Map;
        let mut all = Vec::new();
        if trace.calls.iter().any(maps) {
            all.resize_with(trace.files, || RwLock::new(None));
        }
        Self(all)
    }

    /// Calls of one file are ordered, so the lock is free, as that of an open file.
    fn of(&self, call: &Call) -> Result<&RwLock<Option<Mapping>>, Errno> {
        let place = call.file.and_then(|number| self.0.get(number as usize));
        place.ok_or(Errno::BADF)
    }

    /// Maps the beginning of a file, in place of a mapping that it has.
    pub fn map(&self, call: &Call, file: BorrowedFd<'_>) -> Result<(), Errno> {
        let mapped = Mapping::new(file, call.a as usize, false);
        let mapped = mapped.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::NOMEM))?;
        let place = self.of(call)?.try_write();
        *place.map_err(|_| Errno::BADF)? = mapped;
        Ok(())
    }

    /// Reads a byte. EFAULT: the page cannot be loaded, for example because the file is shorter.
    pub fn touch(&self, call: &Call) -> Result<(), Errno> {
        let place = self.of(call)?.try_read().map_err(|_| Errno::BADF)?;
        let mapped = place.as_ref().ok_or(Errno::BADF)?;
        let mut byte = [0];
        let read = mapped.read(call.a as usize, &mut byte);
        // Nobody needs it, and it has to be read.
        black_box(byte);
        if read == Ok(1) {
            Ok(())
        } else {
            Err(Errno::FAULT)
        }
    }

    pub fn unmap(&self, call: &Call) -> Result<(), Errno> {
        let place = self.of(call)?.try_write();
        let mapped = place.map_err(|_| Errno::BADF)?.take();
        mapped.map(drop).ok_or(Errno::BADF)
    }
}
