use std::{
    fs::File,
    io::{self, Write},
};

use layermark_model::witness::{Found, Stamp};

use crate::witness::{Site, Writer, Writing};

/// A log: each record makes the file longer.
pub struct Append;

impl Writer for Append {
    fn id(&self) -> &'static str {
        "append"
    }

    fn about(&self) -> &'static str {
        "write(2) at the end of a file, then fsync(2)"
    }

    fn slots(&self) -> Option<u64> {
        None
    }

    fn prepare(&self, site: &Site) -> io::Result<Box<dyn Writing>> {
        let file = File::options()
            .append(true)
            .create_new(true)
            .open(site.file())?;
        file.sync_all()?;
        Ok(Box::new(Appending(file)))
    }

    fn look(&self, site: &Site) -> io::Result<Vec<Found>> {
        site.blocks()
    }
}

struct Appending(File);

impl Writing for Appending {
    fn write(&mut self, _: Stamp, record: &[u8]) -> io::Result<()> {
        self.0.write_all(record)?;
        self.0.sync_all()
    }
}
