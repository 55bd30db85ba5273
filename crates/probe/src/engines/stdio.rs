use std::{fs::File, io, os::fd::BorrowedFd};

use rustix::fs::SeekFrom;

use super::{After, FlushEach, Io, Shape, stream::Stream};

/// fread(3) and fwrite(3) with a buffer of one record, as most C programs use them.
///
/// Data still in the buffer after the last record is written inside the clock.
#[derive(Default)]
pub struct Stdio {
    stream: Option<Stream>,
    /// Offset of the stream; `None` if it has to be set.
    position: Option<u64>,
}

impl Stdio {
    #[inline]
    fn at(&mut self, at: u64) -> io::Result<&mut Stream> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        if self.position != Some(at) {
            self.position = None;
            stream.seek(at)?;
        }
        Ok(stream)
    }
}

impl Io for Stdio {
    const ID: &'static str = "stdio";
    const ABOUT: &'static str = "fread(3) and fwrite(3), the buffer one record long";

    /// A stream closes its descriptor. If the close is part of the pass, the stream gets the file's
    /// own descriptor, so that there is one close(2), as in a program. Otherwise, and if the file
    /// is flushed before it is closed, it gets a duplicate.
    fn begin(&mut self, file: &mut Option<File>, shape: &Shape) -> io::Result<()> {
        let open = match shape.after {
            After::Close => file.take(),
            _ => file.as_ref().map(File::try_clone).transpose()?,
        };
        let open = open.ok_or(io::ErrorKind::NotConnected)?;
        rustix::fs::seek(&open, SeekFrom::Start(0))?;
        self.stream = Some(Stream::new(open, shape.writes, shape.record)?);
        self.position = Some(0);
        Ok(())
    }

    #[inline]
    fn read(&mut self, _: BorrowedFd<'_>, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let n = self.at(at)?.read(into)?;
        self.position = Some(at + n as u64);
        Ok(n)
    }

    #[inline]
    fn write(&mut self, _: BorrowedFd<'_>, at: u64, from: &[u8]) -> io::Result<usize> {
        let n = self.at(at)?.write(from)?;
        self.position = Some(at + n as u64);
        Ok(n)
    }

    fn sync(&mut self, file: BorrowedFd<'_>, _: u64, _: usize, flush: FlushEach) -> io::Result<()> {
        if let Some(stream) = &mut self.stream {
            stream.flush()?;
        }
        flush.apply(file)
    }

    fn end(&mut self, file: &mut Option<File>, after: After) -> io::Result<()> {
        if let Some(stream) = &mut self.stream {
            stream.flush()?;
        }
        if after != After::Close {
            after.apply(file)?;
        }
        match self.stream.take_if(|_| after.closes()) {
            Some(stream) => stream.close(),
            None => Ok(()),
        }
    }
}
