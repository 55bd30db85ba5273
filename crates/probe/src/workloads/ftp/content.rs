//! Data of a transfer at its source and its destination, both in the client and in our own server.
//!
//! Every transfer is hashed (XXH3, 64 bits). Data left in memory or in a file is hashed after the
//! clock has stopped. Other data is hashed as it arrives, inside the clock, while it is in the
//! CPU's cache.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::params::{Sink, Source};
use crate::{
    clock::monotonic_ns,
    data::{Noise, derive},
};

/// Bytes per read or write of a data connection.
pub const PIECE: usize = 256 << 10;

/// Called after each piece.
pub type Tick<'a> = dyn FnMut() + 'a;

/// The data to send, and its hash.
pub struct Content {
    pub length: u64,
    pub hash: u64,
    from: From,
}

enum From {
    /// Again and again.
    Block(Vec<u8>),
    Memory(Vec<u8>),
    File(PathBuf),
}

/// Length and hash of data that was received or expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    pub bytes: u64,
    pub hash: u64,
}

impl Content {
    /// The data for the seed; `path` is where a file is made.
    pub fn make(source: Source, length: u64, seed: u64, path: &Path) -> io::Result<Self> {
        let mut noise = Noise::new(derive(seed, "ftp"));
        let mut hash = Xxh3::new();
        let mut each = |whole: &mut dyn FnMut(&[u8]) -> io::Result<()>| {
            let mut piece = vec![0; PIECE];
            let mut left = length;
            while left > 0 {
                let now = left.min(PIECE as u64);
                let piece = &mut piece[..now as usize];
                noise.fill(piece);
                hash.update(piece);
                whole(piece)?;
                left -= now;
            }
            Ok::<_, io::Error>(())
        };
        let from = match source {
            Source::Memory => {
                let mut all = Vec::with_capacity(length as usize);
                each(&mut |piece| {
                    all.extend_from_slice(piece);
                    Ok(())
                })?;
                From::Memory(all)
            }
            Source::File | Source::Auto => {
                let mut file = File::create_new(path)?;
                each(&mut |piece| file.write_all(piece))?;
                // No part of it may be written back while the clock runs.
                file.sync_all()?;
                From::File(path.to_owned())
            }
            Source::Null => {
                let mut block = vec![0; PIECE.min(length as usize)];
                noise.fill(&mut block);
                let mut left = length;
                while left > 0 {
                    let now = left.min(block.len() as u64);
                    hash.update(&block[..now as usize]);
                    left -= now;
                }
                From::Block(block)
            }
        };
        Ok(Self {
            length,
            hash: hash.digest(),
            from,
        })
    }

    pub fn sum(&self) -> Sum {
        Sum {
            bytes: self.length,
            hash: self.hash,
        }
    }

    /// Sends all of it.
    pub fn send(&self, mut to: &TcpStream, tick: &mut Tick<'_>) -> io::Result<()> {
        match &self.from {
            From::Block(block) => {
                let mut left = self.length;
                while left > 0 {
                    let now = left.min(block.len() as u64);
                    to.write_all(&block[..now as usize])?;
                    left -= now;
                    tick();
                }
            }
            From::Memory(all) => {
                for piece in all.chunks(PIECE) {
                    to.write_all(piece)?;
                    tick();
                }
            }
            From::File(path) => {
                let file = File::open(path)?;
                let mut at = 0;
                while at < self.length {
                    match rustix::fs::sendfile(to, &file, Some(&mut at), 4 * PIECE) {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok(_) => tick(),
                        Err(rustix::io::Errno::INTR) => {}
                        Err(e) => return Err(e.into()),
                    }
                }
            }
        }
        Ok(())
    }
}

/// Destination of data.
pub enum Room {
    Nowhere,
    /// Memory whose pages were touched.
    Memory(Vec<u8>),
    File {
        path: PathBuf,
        flush: bool,
    },
}

/// Received data.
pub struct Received {
    pub bytes: u64,
    /// `CLOCK_MONOTONIC` when the first byte arrived.
    pub first_ns: u64,
    left: Left,
}

/// How it is verified afterwards.
enum Left {
    Hashed(u64),
    Memory(Vec<u8>),
    File(PathBuf),
}

impl Room {
    /// `memory` is the buffer of an earlier transfer, for reuse.
    pub fn new(sink: Sink, length: u64, path: PathBuf, memory: Option<Vec<u8>>) -> Self {
        match sink {
            Sink::Null | Sink::Auto => Self::Nowhere,
            Sink::Memory => Self::Memory(memory.unwrap_or_else(|| touched(length))),
            Sink::File | Sink::Fsync => Self::File {
                path,
                flush: sink == Sink::Fsync,
            },
        }
    }

    /// Receives data until the sender closes the connection.
    pub fn receive(
        self,
        mut from: &TcpStream,
        piece: &mut [u8],
        tick: &mut Tick<'_>,
    ) -> io::Result<Received> {
        let (mut bytes, mut first_ns) = (0, 0);
        let mut came = |n: usize| {
            if bytes == 0 {
                first_ns = monotonic_ns();
            }
            bytes += n as u64;
            tick();
        };
        let left = match self {
            Self::Nowhere => {
                let mut hash = Xxh3::new();
                while let n @ 1.. = read(&mut from, piece)? {
                    came(n);
                    hash.update(&piece[..n]);
                }
                Left::Hashed(hash.digest())
            }
            Self::Memory(mut all) => {
                let mut at = 0;
                loop {
                    let end = all.len().min(at + PIECE);
                    // Excess data is only counted.
                    let room = if at < end {
                        &mut all[at..end]
                    } else {
                        &mut *piece
                    };
                    let n = read(&mut from, room)?;
                    if n == 0 {
                        break;
                    }
                    came(n);
                    at = (at + n).min(all.len());
                }
                Left::Memory(all)
            }
            Self::File { path, flush } => {
                let mut file = File::create_new(&path)?;
                while let n @ 1.. = read(&mut from, piece)? {
                    came(n);
                    file.write_all(&piece[..n])?;
                }
                if flush {
                    file.sync_all()?;
                }
                Left::File(path)
            }
        };
        Ok(Received {
            bytes,
            first_ns,
            left,
        })
    }
}

impl Received {
    /// Its length and hash, and memory for reuse. A file is removed.
    pub fn sum(self, tick: &mut Tick<'_>) -> io::Result<(Sum, Option<Vec<u8>>)> {
        let bytes = self.bytes;
        Ok(match self.left {
            Left::Hashed(hash) => (Sum { bytes, hash }, None),
            Left::Memory(all) => {
                let there = &all[..all.len().min(bytes as usize)];
                let hash = xxh3_64(there);
                (Sum { bytes, hash }, Some(all))
            }
            Left::File(path) => (sum_of_file(&path, tick)?, None),
        })
    }
}

/// Length and hash of a file from a transfer, which is removed.
pub fn sum_of_file(path: &Path, tick: &mut Tick<'_>) -> io::Result<Sum> {
    let mut file = File::open(path)?;
    let (mut hash, mut bytes, mut piece) = (Xxh3::new(), 0, vec![0; PIECE]);
    while let n @ 1.. = read(&mut file, &mut piece)? {
        hash.update(&piece[..n]);
        bytes += n as u64;
        tick();
    }
    fs::remove_file(path)?;
    let hash = hash.digest();
    Ok(Sum { bytes, hash })
}

/// Memory with touched pages.
pub fn touched(length: u64) -> Vec<u8> {
    // Zeroed memory is not allocated until it is written to.
    vec![1; length as usize]
}

fn read(from: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(to) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
