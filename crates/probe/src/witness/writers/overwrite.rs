use std::{fs::File, io, os::unix::fs::FileExt};

use layermark_model::witness::{Found, Stamp};

use crate::witness::{Site, Writer, Writing};

/// The blocks of a file of fixed size, in turn.
pub struct Overwrite;

impl Writer for Overwrite {
    fn id(&self) -> &'static str {
        "overwrite"
    }

    fn about(&self) -> &'static str {
        "pwrite(2) over a block of a file, then fdatasync(2)"
    }

    fn prepare(&self, site: &Site) -> io::Result<Box<dyn Writing>> {
        Ok(Box::new(Overwriting(site.prefilled()?)))
    }

    fn look(&self, site: &Site) -> io::Result<Vec<Found>> {
        site.blocks()
    }
}

struct Overwriting(File);

impl Writing for Overwriting {
    fn write(&mut self, stamp: Stamp, record: &[u8]) -> io::Result<()> {
        self.0
            .write_all_at(record, stamp.block * record.len() as u64)?;
        self.0.sync_data()
    }
}
