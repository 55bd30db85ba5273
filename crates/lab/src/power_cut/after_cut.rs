//! What a cut left, set up again: an error of the layer there is a result of the layer, one of this host is not.

use std::{fs, io, path::Path};

use layermark_layers::{
    Undo,
    volatile::{Choice, Recovery, recover},
};
use layermark_model::witness::UnseenCuts;

use super::{CutDisk, Cutter, Stand, states::State};
use crate::execute::layer_failure::LayerFailure;

const NO_MEMORY: &str = "no memory was left for the disks that were looked at";

impl Cutter<'_> {
    /// Recovers what a cut left, and looks at it: `look` gets the layer's directory.
    pub(super) fn after_cut<T>(
        &self,
        disk: &CutDisk,
        stand: &Stand,
        state: State,
        look: impl FnOnce(&Path, &mut Undo) -> Result<T, LayerFailure>,
    ) -> Result<T, LayerFailure> {
        let mut undo = Undo::new();
        let room = disk.room();
        let begun = room.look();
        let seen = image_of(disk, stand, state, &mut undo).and_then(|()| {
            let mut of_layer = Undo::new();
            self.on_ground(&stand.at, &stand.server, &mut of_layer, |ground, undo| {
                look(&ground.join("layer"), undo)
            })
        });
        // As long as the image is there.
        let was_full = room.look() != begun;
        undo.run();
        judged(seen, was_full, state.1)
    }
}

/// Counts a cut that nobody could look after: the layer's fault, or not.
pub(super) fn add_unseen(unseen: &mut UnseenCuts, why: LayerFailure) {
    if why.of_host {
        unseen.add_unjudged(why.reason);
    } else {
        unseen.add_unrecovered(why.reason);
    }
}

/// Mounts the disk that a cut left. Only a file system that cannot be mounted is not this host's fault.
fn image_of(
    disk: &CutDisk,
    stand: &Stand,
    (point, choice): State,
    undo: &mut Undo,
) -> Result<(), LayerFailure> {
    let image = &stand.image;
    let of_host = |e: io::Error| LayerFailure::new(format!("{}: {e}", image.display())).of_host();
    let (removed, room) = (image.clone(), disk.room());
    undo.push("remove the image of a cut disk", move || {
        // For those at work on other images.
        room.look();
        match fs::remove_file(removed) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    });
    disk.history
        .write_image(point, choice, image)
        .map_err(of_host)?;
    match recover(image, &stand.at, undo) {
        Ok(Recovery::Failed { why }) => Err(LayerFailure::new(why)),
        Ok(_) => Ok(()),
        Err(e) => Err(LayerFailure::from(e).of_host()),
    }
}

/// A full directory of images fails writes in whatever stands on it, with any error, and with damage that is no error: then
/// nothing is judged. Of an error of the layer it says which of the writes that no flush covers had survived.
fn judged<T>(
    seen: Result<T, LayerFailure>,
    images_were_full: bool,
    survived: Choice,
) -> Result<T, LayerFailure> {
    match seen {
        Err(why) if why.of_host => Err(why),
        Err(why) if images_were_full => {
            let reason = format!("{NO_MEMORY} ({})", why.reason);
            Err(LayerFailure { reason, ..why }.of_host())
        }
        Ok(_) if images_were_full => Err(LayerFailure::new(NO_MEMORY).of_host()),
        Err(why) => {
            let reason = format!("{}; survived of the rest: {survived}", why.reason);
            Err(LayerFailure { reason, ..why })
        }
        Ok(seen) => Ok(seen),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_this_hosts_where_the_images_have_no_room() {
        let why = || LayerFailure::new("mount xfs on /x: Input/output error");
        let torn = Choice::Torn(7);
        let blamed = |full| judged::<()>(Err(why()), full, torn).unwrap_err();
        let layers = blamed(false);
        assert!(!layers.of_host);
        let whole = format!("mount xfs on /x: Input/output error; survived of the rest: {torn}");
        assert_eq!(layers.reason, whole);
        let lacks = judged::<()>(Err(why().of_host()), true, torn);
        assert_eq!(lacks, Err(why().of_host()));
        let full = blamed(true);
        assert!(full.of_host);
        assert!(full.reason.starts_with("no memory was left"), "{full:?}");
        assert!(full.reason.contains("mount xfs on /x"), "{full:?}");
    }

    /// A survey that could be made found damage, which was called a loss.
    #[test]
    fn what_was_found_while_the_images_had_no_room_is_not_judged() {
        assert_eq!(judged(Ok(7), false, Choice::All), Ok(7));
        let why = judged(Ok(7), true, Choice::All).unwrap_err();
        assert!(why.of_host, "{why:?}");
        assert_eq!(why.reason, NO_MEMORY);
    }

    #[test]
    fn a_probe_that_has_no_more_descriptors_says_nothing_of_the_layer() {
        let of = |errno| LayerFailure::of_probe("cannot look at a/f", errno).of_host;
        assert!(of(Some(24)) && !of(Some(5)) && !of(None));
    }
}
