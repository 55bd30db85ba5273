//! A file mapped into memory, and the handling of pages that cannot be loaded.
//!
//! Where write(2) returns `ENOSPC` or `EIO`, a mapping gets `SIGBUS`, which ends the process. Here
//! the handler puts an empty page in its place and records its offset, so that the copy finishes
//! and the operation fails with an error like any other.
#![allow(unsafe_code)] // mmap(2), memory that the kernel may take away, and a signal handler

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering, compiler_fence},
    },
};

use rustix::{fs::Advice, param::page_size};

/// Mappings at a time: one per thread, and some for tests that run in parallel.
const MOST: usize = 512;

/// A mapping, for the handler. A start of 0 marks a free entry.
struct Entry {
    start: AtomicUsize,
    end: AtomicUsize,
    /// 1 + the offset of the first page that could not be loaded.
    lost: AtomicUsize,
}

static ENTRIES: [Entry; MOST] = [const {
    Entry {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        lost: AtomicUsize::new(0),
    }
}; MOST];

/// The previous handler.
static BEFORE: OnceLock<Before> = OnceLock::new();

struct Before(libc::sigaction);

/// The first bytes of a file, mapped.
pub struct Mapping {
    start: *mut u8,
    len: usize,
    entry: &'static Entry,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: by a shared reference it is only read and flushed, and its entry has atomics.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes: shared to write, private to read. `None` for a length of 0.
    pub fn new(file: impl AsFd, len: usize, writes: bool) -> io::Result<Option<Self>> {
        if len == 0 {
            return Ok(None);
        }
        catch()?;
        let (protection, kind) = if writes {
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED)
        } else {
            (libc::PROT_READ, libc::MAP_PRIVATE)
        };
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            let file = file.as_fd().as_raw_fd();
            libc::mmap(ptr::null_mut(), len, protection, kind, file, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let free = ENTRIES.iter().find(|e| {
            e.start
                .compare_exchange(0, start as usize, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        });
        let Some(entry) = free else {
            // SAFETY: exactly the mapping made above, which nothing refers to.
            unsafe { libc::munmap(start, len) };
            return Err(io::Error::other(format!("more than {MOST} mappings")));
        };
        entry.lost.store(0, Ordering::Relaxed);
        entry.end.store(start as usize + len, Ordering::Release);
        Ok(Some(Self {
            start: start.cast(),
            len,
            entry,
        }))
    }

    /// Bytes mapped.
    pub fn len(&self) -> usize {
        self.len
    }

    /// madvise(2): the readahead of a mapping follows the mapping's own advice, not that of its
    /// file.
    pub fn advise(&self, advice: Advice) {
        let advice = match advice {
            Advice::Random => libc::MADV_RANDOM,
            Advice::Sequential => libc::MADV_SEQUENTIAL,
            _ => libc::MADV_NORMAL,
        };
        // SAFETY: exactly the mapping that `new` made. None of these calls changes its content, and
        // a refusal changes nothing.
        unsafe { libc::madvise(self.start.cast(), self.len, advice) };
    }

    /// Copies from `at`, up to the end of the mapping. The error is the offset of a page that could
    /// not be loaded.
    #[inline]
    pub fn read(&self, at: usize, into: &mut [u8]) -> Result<usize, usize> {
        let n = into.len().min(self.len.saturating_sub(at));
        // SAFETY: the source is within the mapping, and a mapping is not a Rust object that could
        // overlap the buffer. A missing page is replaced by the handler.
        unsafe { ptr::copy_nonoverlapping(self.start.add(at.min(self.len)), into.as_mut_ptr(), n) };
        self.there(n)
    }

    /// Copies to `at`, up to the end of the mapping.
    #[inline]
    pub fn write(&mut self, at: usize, from: &[u8]) -> Result<usize, usize> {
        let n = from.len().min(self.len.saturating_sub(at));
        // SAFETY: as above; only this object writes to the mapping, which is writable, since only
        // passes that write come here.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.start.add(at.min(self.len)), n) };
        self.there(n)
    }

    #[inline]
    fn there(&self, n: usize) -> Result<usize, usize> {
        // The handler runs in this thread, in the middle of the copy.
        compiler_fence(Ordering::SeqCst);
        match self.entry.lost.load(Ordering::Relaxed) {
            0 => Ok(n),
            lost => Err(lost - 1),
        }
    }

    /// msync(2) of the pages that hold `len` bytes at `at`.
    pub fn sync(&self, at: usize, len: usize) -> io::Result<()> {
        let first = at / page_size() * page_size();
        let end = at.saturating_add(len).min(self.len);
        if first >= end {
            return Ok(());
        }
        // SAFETY: the range lies within the mapping and starts at a page.
        let result =
            unsafe { libc::msync(self.start.add(first).cast(), end - first, libc::MS_SYNC) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.entry.end.store(0, Ordering::Release);
        // SAFETY: exactly the mapping that `new` made; nothing refers to it after this.
        unsafe { libc::munmap(self.start.cast(), self.len) };
        self.entry.start.store(0, Ordering::Release);
    }
}

/// Installs the handler, once.
fn catch() -> io::Result<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: all-zero bytes are a valid `sigaction`: plain integers and a null function.
    let (mut ours, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
    ours.sa_sigaction = handler as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both pointers are to live structs. The old handler is read first, so that ours never
    // runs without it.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut before) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut result = 0;
    BEFORE.get_or_init(|| {
        // SAFETY: the handler below makes only calls that are allowed in one.
        result = unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, ptr::null_mut()) };
        Before(before)
    });
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Puts an empty page where one of our mappings has none. Any other `SIGBUS` goes to the previous
/// handler when the instruction is tried again.
extern "C" fn on_sigbus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid `siginfo_t`, and SIGBUS has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let ours = ENTRIES.iter().find(|e| {
        let start = e.start.load(Ordering::Acquire);
        start != 0 && (start..e.end.load(Ordering::Acquire)).contains(&address)
    });
    let page = address / page_size() * page_size();
    if let Some(entry) = ours {
        // SAFETY: one page within a mapping of ours, replaced by one of its own; mmap(2) is a bare
        // system call and touches nothing else.
        let put = unsafe {
            libc::mmap(
                page as *mut libc::c_void,
                page_size(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if put != libc::MAP_FAILED {
            let at = 1 + page - entry.start.load(Ordering::Relaxed);
            let none = (Ordering::Relaxed, Ordering::Relaxed);
            let _ = entry.lost.compare_exchange(0, at, none.0, none.1);
            return;
        }
    }
    if let Some(Before(before)) = BEFORE.get() {
        // SAFETY: restores what the kernel gave us; sigaction(2) may be called in a handler.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const *before, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_gone_is_an_error_and_not_the_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(5 * page_size() as u64).unwrap();
        let mut map = Mapping::new(&file, 5 * page_size(), true).unwrap().unwrap();
        assert_eq!(map.write(0, &[7; 100]), Ok(100));
        map.sync(0, 100).unwrap();
        // Another process truncates the file under a mapping.
        file.set_len(2 * page_size() as u64).unwrap();
        let mut record = vec![1; 2 * page_size()];
        assert_eq!(map.read(0, &mut record), Ok(2 * page_size()));
        assert_eq!((record[99], record[100]), (7, 0));
        assert_eq!(
            map.read(page_size() + 8, &mut record),
            Err(2 * page_size()),
            "the third page is gone"
        );
        drop(map);
        let map = Mapping::new(&file, page_size(), false).unwrap().unwrap();
        assert_eq!(map.read(0, &mut record[..10]), Ok(10), "another mapping");
        assert_eq!(map.read(page_size() - 3, &mut record), Ok(3), "its end");
        assert_eq!(map.read(2 * page_size(), &mut record), Ok(0));
        assert!(Mapping::new(&file, 0, false).unwrap().is_none());
    }
}
