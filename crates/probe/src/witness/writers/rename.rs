use std::{
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
};

use layermark_model::witness::{Found, Stamp};

use crate::witness::{SLOTS, Site, Writer, Writing, sync_dir};

/// Atomic replacement: a new file takes the name of an old one, as editors save.
pub struct Rename;

impl Writer for Rename {
    fn id(&self) -> &'static str {
        "rename"
    }

    fn about(&self) -> &'static str {
        "a new file, fsync(2), rename(2) over the old one, fsync(2) of the directory"
    }

    fn named(&self) -> bool {
        true
    }

    fn syncs_directory(&self) -> bool {
        true
    }

    fn prepare(&self, site: &Site) -> io::Result<Box<dyn Writing>> {
        let renaming = Renaming(site.dir.clone());
        for block in 0..SLOTS {
            let file = File::create_new(renaming.path(block))?;
            (&file).write_all(&site.first(block))?;
            file.sync_all()?;
        }
        Ok(Box::new(renaming))
    }

    fn look(&self, site: &Site) -> io::Result<Vec<Found>> {
        // The directory alone may be absent; a slot without a name is the checker's business.
        fs::read_dir(&site.dir)?;
        let renaming = Renaming(site.dir.clone());
        let mut found = Vec::new();
        for block in 0..SLOTS {
            match fs::read(renaming.path(block)) {
                Ok(data) => found.push(Found {
                    block,
                    content: site.content(&data),
                }),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(found)
    }
}

/// The directory.
struct Renaming(PathBuf);

impl Renaming {
    fn path(&self, block: u64) -> PathBuf {
        self.0.join(format!("slot-{block}"))
    }
}

impl Writing for Renaming {
    fn write(&mut self, stamp: Stamp, record: &[u8]) -> io::Result<()> {
        let new = self.0.join("new");
        // Not through a link that somebody else put there.
        let mut file = File::create_new(&new)?;
        file.write_all(record)?;
        file.sync_all()?;
        fs::rename(&new, self.path(stamp.block))?;
        sync_dir(&self.0)
    }
}
