//! Layers on a volatile disk: what was flushed survives a power cut, and what was not is lost.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use layermark_layers::{
    Base, Content, Layer, Spec, Undo,
    volatile::{Choice, DiskOptions, History, Lie, Mark, PowerCutBase, Recovery, recover},
};

use crate::inside::{self, open};

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
        "cut-hang" => cut.hang(),
        "cut-speed" => cut.speed(),
        "cut-vm" => cut.guest(true),
        "cut-vm-loses" => cut.guest(false),
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

    /// Writes and flushes records on a disk, and cuts its power.
    fn written(&self, lie: Option<Lie>, undo: &mut Undo) -> (PowerCutBase, History, Acks) {
        let mut disk = self.disk(lie, 256 << 20, undo);
        let base = self.on(&disk.dir(), Content::Left);
        let mut up = open(self.layer, self.spec, &base).unwrap();
        let dir = up.place.dir().to_owned();
        // What setting up has left unflushed is not the layer's to keep.
        rustix::fs::syncfs(File::open(disk.dir()).unwrap()).unwrap();
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
        let (point, choice) = cut;
        let mut undo = Undo::new();
        let (image, at) = (disk.images().join("image"), disk.images().join("at"));
        history.write_image(point, choice, &image).unwrap();
        let outcome = recover(&image, &at, &mut undo).unwrap();
        assert_eq!(outcome, Recovery::Mounted, "{cut:?}");
        let acked: Vec<usize> = acks
            .iter()
            .filter(|(_, mark)| *mark <= history.journal().mark(point))
            .map(|(n, _)| *n)
            .collect();
        let base = self.on(&at, Content::Survived);
        let mut up = open(self.layer, self.spec, &base).unwrap();
        let dir = up.place.dir().to_owned();
        let is_lost = |n: &usize| fs::read(record(&dir, *n)).ok() != Some(content(*n));
        let lost = acked.iter().copied().filter(is_lost).collect();
        let last = point == history.journal().events().len();
        if last {
            let unflushed = fs::read(dir.join("unflushed")).unwrap_or_default();
            assert!(choice == Choice::All || unflushed.is_empty(), "{cut:?}");
            assert!(!dir.join("after").exists(), "{cut:?}");
        }
        // A probe works in it.
        if last && choice == Choice::None {
            up.place.facts().unwrap();
            drop(up.place.start().unwrap());
        }
        drop(up.place);
        assert_eq!(up.undo.run(), 0);
        assert_eq!(undo.run(), 0);
        fs::remove_file(&image).unwrap();
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
        let file = File::create_new(record(up.place.dir(), 0)).unwrap();
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

    /// Up and being written to, until somebody kills us.
    fn hang(&self) {
        let mut undo = Undo::new();
        let disk = self.disk(None, 256 << 20, &mut undo);
        let base = self.on(&disk.dir(), Content::Left);
        let up = open(self.layer, self.spec, &base).unwrap();
        let file = File::create_new(record(up.place.dir(), 0)).unwrap();
        println!("up");
        std::io::stdout().flush().unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_mins(1) {
            file.write_all_at(&content(0), 0).unwrap();
            file.sync_all().unwrap();
        }
    }

    /// How many states can be checked in a minute; for the bench and not a test.
    fn speed(&self) {
        let mut undo = Undo::new();
        let (disk, history, acks) = self.written(None, &mut undo);
        let end = history.journal().events().len();
        let start = Instant::now();
        for n in 0..50 {
            self.lost(&disk, &history, &acks, (end - 1, Choice::Seeded(n)));
        }
        println!(
            "{:.0} states a minute",
            50.0 * 60.0 / start.elapsed().as_secs_f64()
        );
        assert_eq!(undo.run(), 0);
    }

    /// What a guest has synced, on its disk: looked for after the guest was killed, and after the power of
    /// the host was cut.
    fn guest(&self, honest: bool) {
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
        let (survived, at) = (disk.images().join("image"), disk.images().join("at"));
        let mut mounted = Undo::new();
        history.write_image(end, Choice::None, &survived).unwrap();
        assert_eq!(
            recover(&survived, &at, &mut mounted).unwrap(),
            Recovery::Mounted
        );
        let kept = self.has_packaged(&at.join("layer/vm/disk"), &disk);
        assert_eq!(kept, honest);
        if honest {
            let mut again = open(self.layer, self.spec, &self.on(&at, Content::Survived)).unwrap();
            inside::trial(&mut again);
            drop(again.place);
            assert_eq!(again.undo.run(), 0);
        }
        assert_eq!(mounted.run(), 0);
        assert_eq!(undo.run(), 0);
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

fn record(dir: &Path, n: usize) -> PathBuf {
    dir.join(format!("record-{n}"))
}

fn content(n: usize) -> Vec<u8> {
    (0..4096).map(|at| (n * 31 + at * 7) as u8).collect()
}
