use std::{io, os::unix::fs::chown, path::PathBuf};

use layermark_model::{Missing, Spec};
use rustix::{
    fs::{StatVfsMountFlags, statvfs},
    mount::{MountFlags, mount_bind, mount_remount},
};

use crate::{
    Base, Group, Layer, LayerError, LayerOption, Place, Undo,
    host::HostPlace,
    mounts,
    options::{layer_options, option_words},
    sandbox,
};

mod idmap;

/// The bind mounts of containers.
pub(crate) struct Bind;

option_words! {
    /// What the mount changes.
    enum BindVariant {
        Rw = "rw",
        Ro = "ro",
        Idmapped = "idmapped",
    }
}

layer_options! {
    struct BindOptions {
        /// rw: as it is; ro: read only; idmapped: with users and groups shifted by 100000, as containers share a
        /// directory between user namespaces
        variant: BindVariant = "rw",
    }
}

impl Layer for Bind {
    fn id(&self) -> &'static str {
        "bind"
    }

    fn group(&self, _: &str) -> Group {
        Group::ThisKernel
    }

    fn about(&self, variant: &str) -> &'static str {
        match variant {
            "ro" => "a bind mount that is read only",
            "idmapped" => "a bind mount with users and groups shifted, as between user namespaces",
            _ => "a bind mount, as volumes of containers are: should cost nothing",
        }
    }

    fn options(&self) -> &'static [LayerOption] {
        &BindOptions::ROWS
    }

    fn uncut(&self, _: &Spec) -> Option<&'static str> {
        None
    }

    /// Users are shifted between both sides of the others, or one of them cannot be changed.
    fn has_other_side(&self, spec: &Spec) -> bool {
        BindOptions::of(spec).is_ok_and(|options| options.variant == BindVariant::Rw)
    }

    fn missing(&self, spec: &Spec) -> Vec<Missing> {
        let lacking = match BindOptions::of(spec).map(|options| options.variant) {
            Ok(BindVariant::Idmapped) => sandbox::not_root().or_else(idmap::missing),
            _ => sandbox::no_mounts(),
        };
        lacking.into_iter().collect()
    }

    fn open(
        &self,
        base: &Base,
        spec: &Spec,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        let options = BindOptions::of(spec)?;
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

    /// The other mount options must be repeated: in a user namespace those of the mount below may
    /// not be removed.
    fn make_read_only(&self) -> Result<(), LayerError> {
        let remount = || -> io::Result<()> {
            let kept = statvfs(&self.at)?.f_flag;
            let mut flags = MountFlags::BIND | MountFlags::RDONLY;
            for (has, flag) in [
                (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
                (StatVfsMountFlags::NODEV, MountFlags::NODEV),
                (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
            ] {
                flags.set(flag, kept.contains(has));
            }
            Ok(mount_remount(&self.at, flags, c"")?)
        };
        remount().map_err(self.io("make read only"))
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
