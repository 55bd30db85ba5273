use std::{fs::File, io};

use layermark_model::witness::{Found, Stamp};

use crate::{
    engines::Mapping,
    witness::{SLOTS, Site, Writer, Writing},
};

/// The blocks of a file of fixed size through a shared mapping.
pub struct Mapped;

impl Writer for Mapped {
    fn id(&self) -> &'static str {
        "mmap"
    }

    fn about(&self) -> &'static str {
        "a store to a shared mapping of a file, then msync(2)"
    }

    fn prepare(&self, site: &Site) -> io::Result<Box<dyn Writing>> {
        let file = site.prefilled()?;
        let map = Mapping::new(&file, site.record * SLOTS as usize, true)?;
        let map = map.ok_or(io::ErrorKind::Unsupported)?;
        Ok(Box::new(Storing { _file: file, map }))
    }

    fn look(&self, site: &Site) -> io::Result<Vec<Found>> {
        site.blocks()
    }
}

struct Storing {
    /// The mapping is of it.
    _file: File,
    map: Mapping,
}

impl Writing for Storing {
    fn write(&mut self, stamp: Stamp, record: &[u8]) -> io::Result<()> {
        let at = stamp.block as usize * record.len();
        let gone = |at| io::Error::other(format!("the mapping ends at byte {at}"));
        self.map.write(at, record).map_err(gone)?;
        self.map.sync(at, record.len())
    }
}
