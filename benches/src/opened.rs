//! A layer that a benchmark sets up without a run.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result};
use layermark_layers::{Base, Content, Place, Spec, Undo, find};

const SILENCE: Duration = Duration::from_mins(1);

/// A layer that is up. Its fields are dropped in this order.
pub struct Opened {
    pub place: Box<dyn Place>,
    _undo: Undo,
}

impl Opened {
    /// Sets a layer up in the directory `name` below `dir`, of which nothing is left from before.
    pub fn new(binary: &Path, dir: &Path, name: &str, spec: &Spec) -> Result<Self> {
        let base = Base {
            dir: dir.join(name),
            packaged: dir.join("packaged"),
            exe: binary.to_owned(),
            silence: SILENCE,
            content: Content::Fresh,
            until: None,
        };
        if base.dir.exists() {
            fs::remove_dir_all(&base.dir)?;
        }
        fs::create_dir_all(&base.dir)?;
        fs::create_dir_all(&base.packaged)?;
        let layer = find(&spec.layer).context("a layer")?;
        let mut undo = Undo::new();
        let place = layer.open(&base, spec, &mut undo)?;
        Ok(Self { place, _undo: undo })
    }
}
