//! Power cuts: time to check one state of a disk after a cut, with and without mounting it. Flushed data
//! must survive in all of them.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use layermark_layers::{
    Undo, sandbox,
    volatile::{
        Choice, DiskOptions, History, Mark, PowerCutBase, ReadAt, Recovery, places, recover,
    },
};

use crate::results::{Claim, lacks};

/// Records that are overwritten in their places, each flushed.
const RECORDS: u64 = 200;
/// Bytes of a record.
const RECORD: usize = 4096;
/// How long states are checked in each way.
const TIME: Duration = Duration::from_secs(10);

/// Every claim about power cuts.
pub fn measure(binary: &Path) -> Result<Vec<Claim>> {
    sandbox::enter()?;
    if lacks("durability", &PowerCutBase::missing()) {
        return Ok(Vec::new());
    }
    let dir = tempfile::Builder::new()
        .prefix("layermark-bench-")
        .tempdir_in(".")?;
    let (home, exe) = (dir.path().canonicalize()?, binary.canonicalize()?);
    let mut undo = Undo::new();
    let mut disk = PowerCutBase::create(&home, &exe, DiskOptions::default(), &mut undo)?;
    let written = write(&mut disk)?;
    let mounted = check(&written, |cut| written.mounted(&disk, cut))?;
    let viewed = check(&written, |cut| written.viewed(cut))?;
    Ok(vec![
        told(
            "ms to recover a disk after a power cut and check it",
            mounted.ms,
            60.0,
        ),
        told(
            "ms to check a disk after a power cut unmounted",
            viewed.ms,
            6.0,
        ),
        told(
            "flushed records lost in power cuts of an honest disk",
            (mounted.lost + viewed.lost) as f64,
            0.0,
        ),
    ])
}

fn told(what: &str, value: f64, at_most: f64) -> Claim {
    Claim {
        what: what.into(),
        value,
        interval: None,
        at_most: Some(at_most),
    }
}

/// A moment of a power cut, and what survives of the writes that were not flushed.
type CutState = (usize, Choice);

/// What was written to a file on a disk.
struct Written {
    history: History,
    /// Where its data begins on the disk.
    place: u64,
    /// After the flush of each record.
    marks: Vec<Mark>,
}

/// Overwrites records in a file that has its place.
fn write(disk: &mut PowerCutBase) -> Result<Written> {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(disk.dir().join("records"))?;
    file.write_all_at(&vec![0; RECORD * RECORDS as usize], 0)?;
    file.sync_all()?;
    let parts = places(&file).context("where the file lies is unknown")?;
    let [(place, _)] = parts[..] else {
        anyhow::bail!("the file is in {} parts", parts.len());
    };
    let mut marks = Vec::new();
    for n in 0..RECORDS {
        file.write_all_at(&record(n), n * RECORD as u64)?;
        file.sync_data()?;
        marks.push(disk.mark()?);
    }
    disk.cut()?;
    Ok(Written {
        history: disk.history()?,
        place,
        marks,
    })
}

fn record(n: u64) -> [u8; RECORD] {
    [n as u8 + 1; RECORD]
}

impl Written {
    /// How many of the records that were flushed before a cut are not as they were.
    fn lost(&self, point: usize, disk: &impl ReadAt, place: u64) -> Result<u64> {
        let before = self.history.journal().mark(point);
        let flushed = self.marks.partition_point(|mark| *mark <= before) as u64;
        let mut bytes = vec![0; RECORD * flushed as usize];
        disk.read_at(&mut bytes, place)?;
        let found = (0..flushed).zip(bytes.chunks(RECORD));
        Ok(found.filter(|(n, bytes)| *bytes != record(*n)).count() as u64)
    }

    fn viewed(&self, (point, choice): CutState) -> Result<u64> {
        let view = self.history.view(point, choice);
        self.lost(point, &view, self.place)
    }

    fn mounted(&self, disk: &PowerCutBase, (point, choice): CutState) -> Result<u64> {
        let (image, at) = (disk.images().join("image"), disk.images().join("at"));
        let mut undo = Undo::new();
        self.history.write_image(point, choice, &image)?;
        let recovery = recover(&image, &at, &mut undo)?;
        ensure!(
            recovery == Recovery::Mounted,
            "{choice} at {point}: {recovery:?}"
        );
        let file = File::open(at.join("records"))?;
        let lost = self.lost(point, &file, 0)?;
        drop(file);
        undo.run();
        fs::remove_file(&image)?;
        Ok(lost)
    }
}

/// What checking many states has found.
struct Checked {
    /// For one, milliseconds.
    ms: f64,
    lost: u64,
}

/// Checks states at all moments in turn, as many as there is time for.
fn check(written: &Written, mut of: impl FnMut(CutState) -> Result<u64>) -> Result<Checked> {
    let journal = written.history.journal();
    let first = journal.point(*written.marks.first().context("nothing was written")?);
    let states = || {
        (first..=journal.events().len()).flat_map(|point| {
            let choices = Choice::of_cached(journal.cached(point), 4);
            choices.into_iter().map(move |choice| (point, choice))
        })
    };
    let (start, mut checked, mut lost) = (Instant::now(), 0_u32, 0);
    'time: loop {
        for state in states() {
            lost += of(state)?;
            checked += 1;
            if start.elapsed() > TIME {
                break 'time;
            }
        }
    }
    let ms = start.elapsed().as_secs_f64() * 1e3 / f64::from(checked);
    Ok(Checked { ms, lost })
}
