//! A `FILE *` of the C library.
#![allow(unsafe_code)] // stdio(3) has no safe wrapper: std's buffers are not the C library's

use std::{fs::File, io, os::fd::IntoRawFd, ptr};

/// A stream with its own buffer, used by one thread.
pub struct Stream {
    /// Null once it is closed.
    file: *mut libc::FILE,
    /// setvbuf(3) has been given this memory: it must not move until the stream is closed.
    _buffer: Box<[u8]>,
}

// SAFETY: a `FILE` may be used by any thread, and only one at a time has this.
unsafe impl Send for Stream {}

impl Stream {
    /// A stream over `file`, which it closes, fully buffered with `size` bytes.
    pub fn new(file: File, writes: bool, size: usize) -> io::Result<Self> {
        let mut buffer = vec![0x5a; size.max(1)].into_boxed_slice();
        let mode = if writes { c"r+" } else { c"r" };
        let fd = file.into_raw_fd();
        // SAFETY: the descriptor is open and ours, the mode is a C string.
        let file = unsafe { libc::fdopen(fd, mode.as_ptr()) };
        if file.is_null() {
            let error = io::Error::last_os_error();
            // SAFETY: no stream has taken the descriptor, so it is still ours to close.
            unsafe { libc::close(fd) };
            return Err(error);
        }
        // SAFETY: the stream is open and unused so far. The buffer lives as long as the stream, on
        // the heap, and nothing else touches it.
        let result =
            unsafe { libc::setvbuf(file, buffer.as_mut_ptr().cast(), libc::_IOFBF, buffer.len()) };
        let stream = Self {
            file,
            _buffer: buffer,
        };
        if result == 0 {
            Ok(stream)
        } else {
            Err(io::Error::other("setvbuf(3) refused the buffer"))
        }
    }

    /// fseeko(3) from the start of the file.
    pub fn seek(&mut self, at: u64) -> io::Result<()> {
        let at = i64::try_from(at).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the stream is open.
        ok(unsafe { libc::fseeko(self.file, at, libc::SEEK_SET) })
    }

    /// fread(3). A short read means the end of the file.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the stream is open and the buffer as long as it says.
        let n = unsafe { libc::fread(into.as_mut_ptr().cast(), 1, into.len(), self.file) };
        if n < into.len() {
            self.failed()?;
        }
        Ok(n)
    }

    /// fwrite(3).
    #[inline]
    pub fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        // SAFETY: the stream is open and the data as long as it says.
        let n = unsafe { libc::fwrite(from.as_ptr().cast(), 1, from.len(), self.file) };
        if n < from.len() {
            self.failed()?;
        }
        Ok(n)
    }

    /// fflush(3).
    pub fn flush(&mut self) -> io::Result<()> {
        // SAFETY: the stream is open.
        ok(unsafe { libc::fflush(self.file) })
    }

    /// fclose(3), with its error.
    pub fn close(mut self) -> io::Result<()> {
        // SAFETY: the stream is open, and null from here on, so that dropping closes nothing.
        let result = ok(unsafe { libc::fclose(self.file) });
        self.file = ptr::null_mut();
        result
    }

    /// The errno(3) of a call that moved too little. The end of the file is not an error.
    #[cold]
    fn failed(&mut self) -> io::Result<()> {
        let error = io::Error::last_os_error();
        // SAFETY: the stream is open.
        if unsafe { libc::ferror(self.file) } == 0 {
            return Ok(());
        }
        // SAFETY: the stream is open.
        unsafe { libc::clearerr(self.file) };
        Err(error)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.file.is_null() {
            // SAFETY: the stream is open and not used after this. Its buffer is written to the
            // file; `flush` has reported errors of that.
            unsafe { libc::fclose(self.file) };
        }
    }
}

fn ok(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
