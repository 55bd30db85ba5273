//! What layers have in common that a command of the user's leads into.

use std::path::Path;

use layermark_model::{Missing, Spec};

use super::{NO_PATH, is_found};
use crate::{About, Group, LayerError, LayerInfo, PathEnds, PowerCut, Storage, options::bad};

/// A place that layermark does not set up: `no_power_cut` says whose its disk is.
pub(crate) fn info(group: Group, about: impl Into<About>, no_power_cut: &'static str) -> LayerInfo {
    LayerInfo {
        storage: Storage::Elsewhere,
        path: PathEnds::none(NO_PATH),
        power_cut: PowerCut::No(no_power_cut),
        ..LayerInfo::new(group, about)
    }
}

/// Checks a directory in the place, the option `dir`.
pub(crate) fn check_dir(spec: &Spec, dir: &str) -> Result<(), LayerError> {
    if Path::new(dir).is_absolute() {
        Ok(())
    } else {
        Err(bad(spec, "dir", dir, "is not an absolute path".into()))
    }
}

/// The program of a command, if this host lacks it.
pub(crate) fn missing_program(program: &str) -> Option<Missing> {
    (!is_found(Path::new(program))).then(|| Missing {
        what: program.into(),
        hint: "install it, or write its absolute path".into(),
        installable: false,
    })
}
