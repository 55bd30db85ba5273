//! The power of a guest's host is cut.

use std::{fs, path::Path};

use layermark_layers::{
    Content, Undo,
    volatile::{Choice, PowerCutBase, Recovery, recover},
};

use super::{Cut, mounted};
use crate::inside::{self, open};

impl Cut<'_> {
    /// What a guest has synced, on its disk: looked for after the guest was killed, and after the power of
    /// the host was cut.
    pub(super) fn guest(&self, honest: bool) {
        let mut undo = Undo::new();
        let mut disk = self.disk(None, 1 << 30, &mut undo);
        let base = self.on(&disk.dir(), Content::Left);
        // Packaged files are synced in the guest.
        let mut up = open(self.layer, self.spec, &base).unwrap();
        inside::trial(&mut up);
        drop(up.place);
        let image = base.dir.join("vm/disk");
        let held = disk.images().join("killed");
        fs::copy(&image, &held).unwrap();
        disk.cut().unwrap();
        assert_eq!(up.undo.run(), 0);
        assert!(
            self.has_packaged(&held, &disk),
            "the host holds what a killed guest wrote"
        );
        fs::remove_file(held).unwrap();

        let history = disk.history().unwrap();
        let end = history.journal().events().len();
        println!("{} flushes", history.journal().flushes(0, end));
        let mut survived = Undo::new();
        let at = mounted(&disk, &history, (end, Choice::None), &mut survived);
        let kept = self.has_packaged(&at.join("layer/vm/disk"), &disk);
        assert_eq!(kept, honest);
        if honest {
            self.again(&at);
        }
        assert_eq!(survived.run(), 0);
        assert_eq!(undo.run(), 0);
    }

    /// A share is served again from what survived.
    pub(super) fn share(&self) {
        let mut undo = Undo::new();
        let (mut disk, up) = self.up(None, &mut undo);
        disk.cut().unwrap();
        drop(up);
        let history = disk.history().unwrap();
        let end = history.journal().events().len();
        let mut survived = Undo::new();
        let at = mounted(&disk, &history, (end, Choice::None), &mut survived);
        self.again(&at);
        assert_eq!(survived.run(), 0);
        assert_eq!(undo.run(), 0);
    }

    /// The layer works on what survived.
    fn again(&self, at: &Path) {
        let mut again = open(self.layer, self.spec, &self.on(at, Content::Survived)).unwrap();
        inside::trial(&mut again);
        drop(again.place);
        assert_eq!(again.undo.run(), 0);
    }

    /// Whether a guest's image has its packaged files.
    fn has_packaged(&self, image: &Path, disk: &PowerCutBase) -> bool {
        let (mut undo, at) = (Undo::new(), disk.images().join("guest"));
        if !image.exists() || !matches!(recover(image, &at, &mut undo), Ok(Recovery::Mounted)) {
            return false;
        }
        let want = fs::read(self.base.packaged.join("big")).unwrap();
        fs::read(at.join("packaged/big")).is_ok_and(|have| have == want)
    }
}
