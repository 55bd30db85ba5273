use std::{io, os::unix::fs::chown, path::PathBuf};

use layermark_model::{Missing, Spec};
use rustix::mount::mount_bind;

use crate::{
    About, Base, Group, LayerError, LayerInfo, OtherSide, Place, PowerCut, Undo,
    host::HostPlace,
    kind::LayerKind,
    mounts,
    options::{layer_options, option_words},
    sandbox,
};

mod idmap;

/// The bind mounts of containers.
pub(crate) struct Bind;

option_words! {
    /// What the mount changes.
    pub(crate) enum BindVariant {
        Rw = "rw",
        Ro = "ro",
        Idmapped = "idmapped",
    }
}

layer_options! {
    pub(crate) struct BindOptions {
        /// rw: as it is; ro: read only; idmapped: with users and groups shifted by 100000, as containers share a
        /// directory between user namespaces
        variant: BindVariant = "rw",
    }
}

impl LayerKind for Bind {
    const ID: &'static str = "bind";
    type Options = BindOptions;

    fn describe(spec: &Spec, options: &BindOptions) -> LayerInfo {
        let about = match spec.variant.as_deref() {
            Some("ro") => About::from("a bind mount that is read only"),
            Some("idmapped") => About::from(
                "a bind mount with users and groups shifted, as between user namespaces",
            ),
            _ => About::of(
                "a bind mount, as volumes of containers are",
                ": should cost nothing",
            ),
        };
        let info = LayerInfo {
            power_cut: PowerCut::MOUNTED,
            ..LayerInfo::new(Group::ThisKernel, about)
        };
        match options.variant {
            BindVariant::Rw => LayerInfo {
                other_side: OtherSide::Yes,
                ..info
            },
            // Users are shifted between both sides, or one of them cannot be changed.
            BindVariant::Ro | BindVariant::Idmapped => info,
        }
    }

    fn missing(_: &Spec, options: &BindOptions) -> Vec<Missing> {
        let lacking = match options.variant {
            BindVariant::Idmapped => sandbox::not_root().or_else(idmap::missing),
            BindVariant::Rw | BindVariant::Ro => sandbox::no_mounts(),
        };
        lacking.into_iter().collect()
    }

    fn open(
        base: &Base,
        spec: &Spec,
        options: Self::Options,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        base.emptied(undo);
        let bind = Directories::make(base, spec)?;
        let mut place = HostPlace::new(base, spec, bind.at.clone()).proof(&bind.at, &bind.fs);
        let at = bind.at.clone();
        undo.push(format!("unmount {}", at.display()), move || {
            mounts::unmount(&at)
        });
        match options.variant {
            BindVariant::Ro => {
                // Packaged files are copied before the mount becomes read-only.
                HostPlace::new(base, spec, bind.source.clone()).package()?;
                bind.mount()?;
                bind.make_read_only()?;
                bind.shows("ro")?;
                return Ok(Box::new(place.read_only()));
            }
            BindVariant::Idmapped => {
                bind.mount_idmapped()?;
                bind.shows("idmapped")?;
            }
            BindVariant::Rw => bind.mount()?,
        }
        place.package()?;
        Ok(Box::new(place.other_side(&bind.source)))
    }
}

/// The source and the mount point of a bind mount.
struct Directories {
    layer: String,
    source: PathBuf,
    at: PathBuf,
    /// Type of the file system that holds both.
    fs: String,
}

impl Directories {
    fn make(base: &Base, spec: &Spec) -> Result<Self, LayerError> {
        let layer = spec.to_string();
        let [source, at] = ["source", "mnt"].map(|name| base.dir.join(name));
        for dir in [&source, &at] {
            base.make_dir(dir)
                .map_err(LayerError::io(&layer, "make", dir))?;
        }
        let entry = mounts::holding(&source).map_err(LayerError::io(
            &layer,
            "find the mount of",
            &source,
        ))?;
        // A sub-type follows a dot: `fuse.sshfs`.
        let fs = entry.fs.split('.').next().unwrap_or_default().to_owned();
        Ok(Self {
            layer,
            source,
            at,
            fs,
        })
    }

    fn io(&self, what: &str) -> impl FnOnce(io::Error) -> LayerError + use<> {
        LayerError::io(&self.layer, what, &self.at)
    }

    fn mount(&self) -> Result<(), LayerError> {
        mount_bind(&self.source, &self.at).map_err(|e| self.io("bind a directory to")(e.into()))
    }

    fn make_read_only(&self) -> Result<(), LayerError> {
        mounts::make_read_only(&self.at).map_err(self.io("make read only"))
    }

    fn mount_idmapped(&self) -> Result<(), LayerError> {
        // Files without an owner inside the mount could not be written, not even by root.
        chown(&self.source, Some(idmap::FIRST), Some(idmap::FIRST)).map_err(LayerError::io(
            &self.layer,
            "change the owner of",
            &self.source,
        ))?;
        match idmap::mount(&self.source, &self.at) {
            // The error in mount_setattr(2) for a file system without idmapped mounts.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => Err(LayerError::Missing {
                layer: self.layer.clone(),
                missing: vec![idmap::missing_in(&self.fs)],
            }),
            outcome => outcome.map_err(self.io("mount with shifted users on")),
        }
    }

    /// Checks that the kernel lists the mount with this option.
    fn shows(&self, option: &str) -> Result<(), LayerError> {
        let entry = mounts::assert_mounted(&self.layer, &self.at, &self.fs)?;
        if entry.options.split(',').any(|o| o == option) {
            return Ok(());
        }
        Err(LayerError::NotMounted {
            layer: self.layer.clone(),
            path: self.at.clone(),
            expected: option.into(),
            found: entry.options,
        })
    }
}
