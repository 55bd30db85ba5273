//! Layers on a volatile disk: what was flushed survives a power cut, and what was not is lost.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use layermark_layers::{
    Base, Content, End, Layer, LayerError, Spec, Undo,
    volatile::{
        Choice, DiskOptions, History, Lie, Mark, PowerCutBase, ReadAt, Recovery, UserServer,
        places, recover,
    },
};

use rustix::{fs::AtFlags, mount::UnmountFlags};

use crate::inside::{Up, open};

/// Records that are written and flushed, each in a file of its own.
const RECORDS: usize = 12;

/// Runs one check: `cut`, `cut-loses` and others.
pub fn run(mode: &str, layer: &dyn Layer, spec: &Spec, base: &Base) {
    let cut = Cut { layer, spec, base };
    match mode {
        "cut" => cut.keeps(),
        "cut-loses" => cut.loses(None),
        "cut-nobarrier" => cut.loses(Some(Lie::NoBarrier)),
        "cut-write-through" => cut.loses(Some(Lie::WriteThrough)),
        "cut-fails" => cut.fails(),
        "cut-broken" => cut.broken(),
        "cut-recovery" => cut.recovery(),
        "cut-early" => cut.early(),
        "cut-places" => cut.in_place(),
        "cut-held" => cut.held(),
        "cut-hang" => cut.hang(),
        other => panic!("no check {other}"),
    }
}

struct Cut<'a> {
    layer: &'a dyn Layer,
    spec: &'a Spec,
    base: &'a Base,
}

/// What was acknowledged: a record, and how much had completed by then.
type Acks = Vec<(usize, Mark)>;

impl Cut<'_> {
    fn disk(&self, lie: Option<Lie>, size: u64, undo: &mut Undo) -> PowerCutBase {
        let home = self.base.dir.join("volatile");
        fs::create_dir(&home).unwrap();
        let options = DiskOptions { size, lie };
        PowerCutBase::create(&home, &self.base.exe, options, undo).unwrap()
    }

    /// A layer's directory on a disk.
    fn on(&self, dir: &Path, content: Content) -> Base {
        let dir = dir.join("layer");
        let _ = fs::create_dir(&dir);
        Base {
            dir,
            content,
            ..self.base.clone()
        }
    }

    /// A layer that is up on a disk. What its set-up has left unflushed, such as sockets, is flushed.
    fn up(&self, lie: Option<Lie>, undo: &mut Undo) -> (PowerCutBase, Up) {
        let disk = self.disk(lie, 256 << 20, undo);
        let base = self.on(&disk.dir(), Content::Left);
        let up = open(self.layer, self.spec, &base).unwrap();
        rustix::fs::syncfs(File::open(disk.dir()).unwrap()).unwrap();
        (disk, up)
    }

    /// Writes and flushes records on a disk, and cuts its power.
    fn written(&self, lie: Option<Lie>, undo: &mut Undo) -> (PowerCutBase, History, Acks) {
        let (mut disk, mut up) = self.up(lie, undo);
        let dir = up.place.info().dir.clone();
        let mut acks = Acks::new();
        for n in 0..RECORDS {
            let file = File::create_new(record(&dir, n)).unwrap();
            file.write_all_at(&content(n), 0).unwrap();
            file.sync_all().unwrap();
            File::open(&dir).unwrap().sync_all().unwrap();
            acks.push((n, disk.mark().unwrap()));
        }
        fs::write(dir.join("unflushed"), content(99)).unwrap();
        disk.cut().unwrap();
        // None of this is on the disk.
        fs::write(dir.join("after"), b"x").unwrap();
        File::open(dir.join("after")).unwrap().sync_all().unwrap();
        drop(up.place);
        assert_eq!(up.undo.run(), 0);
        let history = disk.history().unwrap();
        (disk, history, acks)
    }

    /// Sets the layer up on what a cut leaves, and reads the records that were acknowledged by then. How many
    /// were, and the number of each that is not as it was.
    fn lost(
        &self,
        disk: &PowerCutBase,
        history: &History,
        acks: &Acks,
        cut: (usize, Choice),
    ) -> (usize, Vec<usize>) {
        let ((point, choice), mut undo) = (cut, Undo::new());
        let at = mounted(disk, history, cut, &mut undo);
        let acked: Vec<usize> = acks
            .iter()
            .filter(|(_, mark)| *mark <= history.journal().mark(point))
            .map(|(n, _)| *n)
            .collect();
        let base = self.on(&at, Content::Survived);
        let mut up = open(self.layer, self.spec, &base).unwrap();
        let dir = up.place.info().dir.clone();
        let is_lost = |n: &usize| fs::read(record(&dir, *n)).ok() != Some(content(*n));
        let lost = acked.iter().copied().filter(is_lost).collect();
        let at_end = point == history.journal().events().len();
        if at_end {
            let unflushed = fs::read(dir.join("unflushed")).unwrap_or_default();
            assert!(choice == Choice::All || unflushed.is_empty(), "{cut:?}");
            assert!(!dir.join("after").exists(), "{cut:?}");
        }
        // A probe works in it.
        if at_end && choice == Choice::None {
            up.place.facts().unwrap();
            drop(up.place.start(End::Far).unwrap());
        }
        drop(up.place);
        assert_eq!(up.undo.run(), 0);
        assert_eq!(undo.run(), 0);
        (acked.len(), lost)
    }

    fn keeps(&self) {
        let mut undo = Undo::new();
        let (disk, history, acks) = self.written(None, &mut undo);
        let journal = history.journal();
        let end = journal.events().len();
        let points = journal.points();
        let first = journal.point(acks[0].1);
        let some = points.iter().copied().filter(|p| *p >= first).step_by(7);
        let mut checked = 0;
        for point in some.chain([end]) {
            for choice in [
                Choice::None,
                Choice::All,
                Choice::Seeded(1),
                Choice::Torn(1),
            ] {
                let (acked, lost) = self.lost(&disk, &history, &acks, (point, choice));
                assert!(lost.is_empty(), "{lost:?} at {point} of {end}, {choice}");
                assert!(point < end || acked == RECORDS);
                checked += 1;
            }
        }
        println!("{checked} states, {} flushes", journal.flushes(0, end));
        assert!(journal.flushes(first, end) >= RECORDS - 1);
        assert_eq!(undo.run(), 0);
    }

    fn loses(&self, lie: Option<Lie>) {
        let mut undo = Undo::new();
        let (disk, history, acks) = self.written(lie, &mut undo);
        let end = history.journal().events().len();
        let (acked, lost) = self.lost(&disk, &history, &acks, (end, Choice::None));
        println!("lost {lost:?} of {acked}");
        assert_eq!(acked, RECORDS);
        assert!(lost.contains(&(RECORDS - 1)), "{lost:?}");
        assert_eq!(undo.run(), 0);
    }

    /// A flush that fails is an error of fsync, once; what it covered is gone, whatever is flushed later.
    fn fails(&self) {
        let mut undo = Undo::new();
        let mut disk = self.disk(None, 256 << 20, &mut undo);
        let base = self.on(&disk.dir(), Content::Left);
        let up = open(self.layer, self.spec, &base).unwrap();
        let file = File::create_new(record(&up.place.info().dir, 0)).unwrap();
        file.write_all_at(&content(0), 0).unwrap();
        disk.fail_next_flush().unwrap();
        let e = file.sync_all().unwrap_err();
        assert_eq!(e.raw_os_error(), Some(libc::EIO), "{e}");
        drop((file, up.place));
        disk.cut().unwrap();
        drop(up.undo);
        let history = disk.history().unwrap();
        let end = history.journal().events().len();
        let acks = vec![(0, Mark(0))];
        assert_eq!(
            self.lost(&disk, &history, &acks, (end, Choice::None)),
            (1, vec![0])
        );
        assert_eq!(undo.run(), 0);
    }

    /// A disk that cannot be mounted is an outcome; one that e2fsck repairs is another.
    fn broken(&self) {
        let mut undo = Undo::new();
        let disk = self.disk(None, 256 << 20, &mut undo);
        let (image, at) = (disk.images().join("image"), disk.images().join("at"));
        let history = disk.history().unwrap();
        history.write_image(0, Choice::None, &image).unwrap();
        let file = File::options().write(true).open(&image).unwrap();
        // The superblock: there are copies of it.
        file.write_all_at(&[0xff; 1024], 1024).unwrap();
        let outcome = recover(&image, &at, &mut Undo::new()).unwrap();
        let Recovery::Repaired { why } = &outcome else {
            panic!("{outcome:?}")
        };
        println!("{why}");
        file.set_len(1 << 20).unwrap();
        file.write_all_at(&vec![0xff; 1 << 20], 0).unwrap();
        let outcome = recover(&image, &at, &mut Undo::new()).unwrap();
        let Recovery::Failed { why } = &outcome else {
            panic!("{outcome:?}")
        };
        println!("{why}");
        assert_eq!(undo.run(), 0);
    }

    /// The power is cut again while the file system recovers: nothing more is lost.
    fn recovery(&self) {
        let mut undo = Undo::new();
        let (disk, history, acks) = self.written(None, &mut undo);
        let end = history.journal().events().len();
        let image = disk.images().join("survived");
        history.write_image(end, Choice::Torn(3), &image).unwrap();
        let home = self.base.dir.join("recovers");
        fs::create_dir(&home).unwrap();
        let again = PowerCutBase::resume(&home, &self.base.exe, &image, &mut undo).unwrap();
        rustix::fs::syncfs(File::open(again.dir()).unwrap()).unwrap();
        let recovery = again.history().unwrap();
        let events = recovery.journal().events().len();
        println!("{events} writes and flushes of the recovery");
        assert!(events > 2);
        // All that was acknowledged was so before the recovery began.
        let acks: Acks = acks.iter().map(|(n, _)| (*n, Mark(0))).collect();
        for point in 0..=events {
            for choice in [Choice::None, Choice::Torn(point as u64)] {
                let lost = self.lost(&again, &recovery, &acks, (point, choice));
                assert_eq!(lost, (RECORDS, vec![]), "{choice} at {point} of {events}");
            }
        }
        assert_eq!(undo.run(), 0);
    }

    /// The power is cut while the layer is set up: it comes up again, or fails and leaves nothing.
    fn early(&self) {
        let mut undo = Undo::new();
        let (mut disk, up) = self.up(None, &mut undo);
        disk.cut().unwrap();
        drop(up);
        let history = disk.history().unwrap();
        let mut outcomes = [0, 0];
        for point in history.journal().points() {
            for choice in [Choice::None, Choice::Torn(2)] {
                let mut survived = Undo::new();
                let at = mounted(&disk, &history, (point, choice), &mut survived);
                let up = open(self.layer, self.spec, &self.on(&at, Content::Survived));
                outcomes[usize::from(up.is_err())] += 1;
                if let Ok(mut up) = up {
                    drop(up.place);
                    assert_eq!(up.undo.run(), 0);
                }
                assert_eq!(survived.run(), 0);
            }
        }
        println!("up again, and not: {outcomes:?}");
        assert!(outcomes[0] > 0 && outcomes[1] > 0, "{outcomes:?}");
        assert_eq!(undo.run(), 0);
    }

    /// A file that is overwritten in its place is read in surviving disks that are not mounted.
    fn in_place(&self) {
        let mut undo = Undo::new();
        let mut disk = self.disk(None, 256 << 20, &mut undo);
        let file = File::create_new(record(&disk.dir(), 0)).unwrap();
        file.write_all_at(&content(0), 0).unwrap();
        file.sync_all().unwrap();
        let [(place, 4096)] = places(&file).unwrap()[..] else {
            panic!("{:?}", places(&file))
        };
        let first = disk.mark().unwrap();
        file.write_all_at(&content(1), 0).unwrap();
        file.sync_data().unwrap();
        let second = disk.mark().unwrap();
        disk.cut().unwrap();
        drop(file);
        let history = disk.history().unwrap();
        let mut states = 0;
        for (mark, n) in [(first, 0), (second, 1)] {
            let point = history.journal().point(mark);
            for choice in Choice::of_cached(history.journal().cached(point), 100) {
                let mut found = vec![0; 4096];
                history
                    .view(point, choice)
                    .read_at(&mut found, place)
                    .unwrap();
                assert!(found == content(n), "{choice} at {mark:?}");
                states += 1;
            }
        }
        println!("{states} states");
        assert_eq!(undo.run(), 0);
    }

    /// A server of the user's that never answers what the last step of the undo asks: the watch had ended by then. Its mount
    /// point is gone, so only its end ends the call.
    fn held(&self) {
        let dir = &self.base.dir;
        let [source, at] = ["source", "at"].map(|name| dir.join(name));
        for dir in [&source, &at] {
            fs::create_dir(dir).unwrap();
        }
        let holds = dir.join("holds");
        let serve = "LAYERMARK_FUSE_HOLDS=$0 exec \"$1\" fuse-serve \"$2\" \"$3\" fuse";
        let words = ["sh".as_ref(), "-c".as_ref(), serve.as_ref()];
        let words = words.into_iter().chain([&*holds, &*self.base.exe]);
        let words = words.map(|word: &Path| word.to_string_lossy().into_owned());
        let command: Vec<String> = words.collect();
        let server = UserServer {
            command: &command,
            source: &source,
            at: &at,
        };
        let mut undo = Undo::new();
        let done: Option<Result<(), LayerError>> =
            server.serve(Duration::from_secs(2), &mut undo, |undo| {
                let dir = File::open(&at).unwrap();
                fs::create_dir(at.join("left")).unwrap();
                let mounted = at.clone();
                undo.push("ask the server", move || {
                    rustix::mount::unmount(&mounted, UnmountFlags::DETACH)?;
                    fs::write(holds, "rmdir")?;
                    rustix::fs::unlinkat(&dir, "left", AtFlags::REMOVEDIR).unwrap_err();
                    Ok(())
                });
                Ok(())
            });
        assert!(done.is_none(), "{done:?}");
    }

    /// Up and being written to, until somebody kills us.
    fn hang(&self) {
        let mut undo = Undo::new();
        let disk = self.disk(None, 256 << 20, &mut undo);
        let base = self.on(&disk.dir(), Content::Left);
        let up = open(self.layer, self.spec, &base).unwrap();
        let file = File::create_new(record(&up.place.info().dir, 0)).unwrap();
        println!("up");
        std::io::stdout().flush().unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_mins(1) {
            file.write_all_at(&content(0), 0).unwrap();
            file.sync_all().unwrap();
        }
    }
}

/// Mounts what a cut leaves; where.
fn mounted(
    disk: &PowerCutBase,
    history: &History,
    cut: (usize, Choice),
    undo: &mut Undo,
) -> PathBuf {
    let (image, at) = (disk.images().join("image"), disk.images().join("at"));
    history.write_image(cut.0, cut.1, &image).unwrap();
    let written = image.clone();
    undo.push("remove the image", move || fs::remove_file(written));
    assert_eq!(
        recover(&image, &at, undo).unwrap(),
        Recovery::Mounted,
        "{cut:?}"
    );
    at
}

fn record(dir: &Path, n: usize) -> PathBuf {
    dir.join(format!("record-{n}"))
}

fn content(n: usize) -> Vec<u8> {
    (0..4096).map(|at| (n * 31 + at * 7) as u8).collect()
}
