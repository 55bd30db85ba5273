use std::{
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
};

use layermark_model::witness::{Found, Stamp};

use crate::witness::{Site, Writer, Writing, sync_dir};

/// A new file for each record.
pub struct Create {
    /// The directory is synced after each file. If not, POSIX lets the name be lost.
    pub synced: bool,
}

/// Names are this and the block.
const PREFIX: &str = "record-";

impl Create {
    /// The name of a record's file.
    pub fn name(block: u64) -> String {
        format!("{PREFIX}{block}")
    }
}

impl Writer for Create {
    fn id(&self) -> &'static str {
        if self.synced {
            "create"
        } else {
            "create-unsynced"
        }
    }

    fn about(&self) -> &'static str {
        if self.synced {
            "a new file for each record, fsync(2) of it and of its directory"
        } else {
            "a new file for each record and fsync(2) of it alone: its name may be lost"
        }
    }

    fn slots(&self) -> Option<u64> {
        None
    }

    fn named(&self) -> bool {
        true
    }

    fn names_synced(&self) -> bool {
        self.synced
    }

    fn syncs_directory(&self) -> bool {
        self.synced
    }

    fn prepare(&self, site: &Site) -> io::Result<Box<dyn Writing>> {
        Ok(Box::new(Creating {
            dir: site.dir.clone(),
            synced: self.synced,
        }))
    }

    fn look(&self, site: &Site) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&site.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let block = name
                .to_str()
                .and_then(|n| n.strip_prefix(PREFIX)?.parse().ok());
            let Some(block) = block else { continue };
            found.push(Found {
                block,
                content: site.content(&fs::read(entry.path())?),
            });
        }
        Ok(found)
    }
}

struct Creating {
    dir: PathBuf,
    synced: bool,
}

impl Writing for Creating {
    fn write(&mut self, stamp: Stamp, record: &[u8]) -> io::Result<()> {
        let mut file = File::create_new(self.dir.join(Create::name(stamp.block)))?;
        file.write_all(record)?;
        file.sync_all()?;
        if self.synced {
            sync_dir(&self.dir)
        } else {
            Ok(())
        }
    }
}
