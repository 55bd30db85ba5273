//! What a layer that is cut stands on, and a server of the user's that does not answer.

use std::{
    fs,
    path::{Path, PathBuf},
};

use layermark_layers::{LayerError, Undo, volatile::UserServer};

use super::Cutter;
use crate::execute::layer_failure::LayerFailure;

impl Cutter<'_> {
    /// Works in the directory that the layer stands below: on the disk, or in a file system of the user's at `at`, which has
    /// its files on the disk. A call of this thread that such a file system does not answer ends the work. Runs the steps of
    /// `undo` at the end.
    pub(super) fn on_ground<T>(
        &self,
        disk: &Path,
        at: &Path,
        undo: &mut Undo,
        work: impl FnOnce(&Path, &mut Undo) -> Result<T, LayerFailure>,
    ) -> Result<T, LayerFailure> {
        if self.layer.server.is_empty() {
            let done = work(disk, undo);
            undo.run();
            return done;
        }
        if let Some(silent) = self.silent.get() {
            return Err(silent.clone());
        }
        let source = disk.join("served");
        for dir in [source.as_path(), at] {
            fs::create_dir_all(dir)
                .map_err(|e| LayerFailure::new(format!("{}: {e}", dir.display())))?;
        }
        let server = UserServer {
            command: &self.layer.server,
            source: &source,
            at,
        };
        let silence = self.request.silence;
        if let Some(done) = server.serve(silence, undo, |undo| work(at, undo)) {
            return done;
        }
        let silent = LayerError::Silent {
            layer: self.layer.name.clone(),
            path: at.into(),
            after: silence,
        };
        Err(self.silent.get_or_init(|| silent.into()).clone())
    }

    /// Where a file system of the user's is mounted before a cut.
    pub(super) fn server(&self) -> PathBuf {
        self.home.join("server")
    }
}
