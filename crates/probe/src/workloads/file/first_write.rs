//! The operation `first-write`, which opens its file inside the clock.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
    time::SystemTime,
};

use layermark_fd::dated;

use super::{
    open::open,
    params::{FileParams, Op, Sync},
};
use crate::{
    data::{self, Stamp},
    permutation::Permutation,
    run::drive::Step,
};

/// Opens a packaged file for writing and writes one record. A copy-up happens here.
pub struct FirstWrite<'a> {
    pub p: &'a FileParams,
    pub path: &'a Path,
    pub seed: u64,
    pub data: &'a mut [u8],
    pub file: &'a mut Option<File>,
}

/// The record that a first write changes.
pub fn first_record(p: &FileParams, seed: u64) -> u64 {
    Permutation::new(p.file_size / p.record, seed).at(0) * p.record
}

/// The record that a first write replaces. It is put back after the trial, with the file's time.
/// Otherwise the layer would compare the whole file before the next block.
pub struct Replaced {
    data: Vec<u8>,
    at: u64,
    modified: SystemTime,
}

impl Replaced {
    /// Reads the record, which is in the cache.
    pub fn read(p: &FileParams, seed: u64, file: &File) -> io::Result<Self> {
        let at = first_record(p, seed);
        let mut data = vec![0; p.record as usize];
        file.read_exact_at(&mut data, at)?;
        let modified = file.metadata()?.modified()?;
        Ok(Self { data, at, modified })
    }

    /// Writes the record to its file again, without a flush.
    pub fn put_back(&self, path: &Path) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.write_all_at(&self.data, self.at)?;
        dated(&file, self.modified)
    }
}

impl FirstWrite<'_> {
    /// Marks the record before the clock starts, if it will be verified.
    pub fn mark(&mut self) {
        if self.p.verify {
            let offset = first_record(self.p, self.seed);
            let stamp = Stamp {
                seed: self.seed,
                offset,
                generation: 1,
            };
            data::stamp(&mut self.data[..self.p.record as usize], stamp);
        }
    }
}

impl Step for FirstWrite<'_> {
    fn run(&mut self, _: u64) -> io::Result<()> {
        let file = open(self.p, Op::FirstWrite, self.path)?;
        file.write_all_at(
            &self.data[..self.p.record as usize],
            first_record(self.p, self.seed),
        )?;
        flush(self.p.sync, &file)?;
        *self.file = Some(file);
        Ok(())
    }
}

fn flush(sync: Sync, file: &File) -> io::Result<()> {
    match sync {
        Sync::Each | Sync::Fsync | Sync::FsyncClose => file.sync_all(),
        Sync::EachData | Sync::Fdatasync => file.sync_data(),
        _ => Ok(()),
    }
}
