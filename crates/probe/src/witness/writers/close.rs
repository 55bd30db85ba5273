use std::{
    fs::File,
    io::{self, Write},
    path::PathBuf,
};

use layermark_model::witness::{Found, Stamp};

use super::Create;
use crate::witness::{Site, Writer, Writing};

/// A new file for each record, which is closed and not flushed: what is lost before a clean unmount, and not in a
/// power cut.
pub struct Close;

/// Names and the reader are those of this one.
const LIKE: Create = Create { synced: true };

impl Writer for Close {
    fn id(&self) -> &'static str {
        "close"
    }

    fn about(&self) -> &'static str {
        "a new file for each record, written and closed; then a clean unmount"
    }

    fn slots(&self) -> Option<u64> {
        None
    }

    fn named(&self) -> bool {
        true
    }

    fn prepare(&self, site: &Site) -> io::Result<Box<dyn Writing>> {
        Ok(Box::new(Closing(site.dir.clone())))
    }

    fn look(&self, site: &Site) -> io::Result<Vec<Found>> {
        LIKE.look(site)
    }
}

struct Closing(PathBuf);

impl Writing for Closing {
    fn write(&mut self, stamp: Stamp, record: &[u8]) -> io::Result<()> {
        let path = self.0.join(Create::name(stamp.block));
        File::create_new(path)?.write_all(record)
    }
}
