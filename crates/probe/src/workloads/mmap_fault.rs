//! `mmap-fault`: page faults of a mapped file. Programs, libraries and databases that map their files wait
//! for these instead of for read(2), and a layer that serves pages slowly decides how long.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use layermark_model::{
    Amount, CacheState, Direction, Divided, Figure, FigureTable, FigureUnit, FigureValues, Meaning,
    Needs, NoteWhen, PackagedFile, PointError, Quantity, Target, Trial, TurnCost, Verified,
    format_size,
};
use rustix::{fs::Advice, param::page_size};
use serde::{Deserialize, Serialize};

use crate::{
    Context, ProbeError, Work,
    buffer::ALIGN,
    data,
    engines::mapping::Mapping,
    files::evict,
    limits,
    packaged::BLOCK,
    param::{self, Cache, Means, Of, Params, Row, Runs, Values, scaled},
    permutation::Permutation,
    resident,
    run::{
        Extent, Mark, Passes, Repeat, Repeated, Stretch,
        drive::{self, OpRange, Step},
        recorder::Recorder,
    },
    selftest,
};

/// The workload `mmap-fault`.
pub static WORKLOAD: Of<FaultParams> = param::of();

/// One page is touched in each window of this many bytes. A fault of a page in the cache also maps those
/// around it, up to 64 KiB (`fault_around_bytes`), so a second touch there would cause no fault.
const WINDOW: u64 = 64 << 10;

/// The parameters of one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultParams {
    /// Size of the mapped file, bytes.
    pub file_size: u64,
    /// State of the page cache.
    pub cache: Cache,
}

impl Params for FaultParams {
    const ID: &'static str = "mmap-fault";
    const TABLE: &'static [Row<Self>] = &[
        Row::size("file_size", "64M")
            .list()
            .range(WINDOW, limits::FILE_SIZE)
            .help("bytes of the mapped file; one page of each 64K is touched, in random order")
            .label(|p: &Self| Some(format!("page faults of {}", format_size(p.file_size))))
            .part(|p: &Self| Some(format!("{} file", format_size(p.file_size))))
            .axis(Quantity::DataSize, |p: &Self| p.file_size),
        Row::word("cache", Cache::WORDS, "warm,cold")
            .list()
            .help("state of the cache before the clock starts: a fault finds its page there, or reads it")
            .says(|p: &Self| Some(p.cache.id().into())),
    ];

    fn scale(&mut self, scale: f64, _: &Values) {
        let size = scaled(self.file_size, scale) / ALIGN as u64 * ALIGN as u64;
        self.file_size = size.max(WINDOW);
    }
}

impl Means for FaultParams {
    fn meaning(&self) -> Result<Meaning, PointError> {
        let cold = self.cache == Cache::Cold;
        let said = Meaning {
            operation: "page-fault".into(),
            target: Target::Data,
            direction: Direction::Reads,
            cache: Some(if cold {
                CacheState::Cold
            } else {
                CacheState::Warm
            }),
            divided: Some(Divided {
                in_memory: !cold,
                uses_up: cold,
                working_set: self.file_size,
                cost: TurnCost::Nothing,
                under_way: 0,
            }),
            ..Meaning::default()
        };
        Ok(self
            .described(said.part("op", "page faults"))
            .figures(figures()))
    }
}

/// Faults in the turns of a trial. The fields have the names of the figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct FaultTrial {
    /// Of any kind, by the whole probe.
    faults: u64,
    /// Those that had to read.
    major: u64,
}

fn figures() -> FigureTable {
    let per = |name: &str, head: &str, of, over| {
        Figure::per(name, FigureUnit::Number, [of], [over]).head(head)
    };
    let value = |name: &str| Amount::Value(name.into());
    let about = "Touches of pages of a mapped file, one in each 64 KiB, in random order. A fault of a page in the cache is minor; one that reads is major. The mapping is made again for each pass, outside the clock. The data of each page was right.";
    FigureTable::new("Page faults", about).with([
        per(
            "touches_a_fault",
            "touches a fault",
            Amount::Operations,
            value("faults"),
        )
        .note(
            NoteWhen::Above(1),
            "{layer}: a fault mapped more than 64 KiB, so there are {touches_a_fault} touches to a fault: its time is not that of a fault.",
        ),
        per(
            "major_a_touch",
            "major faults a touch",
            value("major"),
            Amount::Operations,
        ),
    ])
}

impl FaultParams {
    /// Path below `packaged/`. `file` and `iops` read the same file.
    fn packaged_name(&self) -> String {
        format!("data-{}-0", self.file_size)
    }
}

impl Runs for FaultParams {
    const ABOUT: &'static str =
        "page faults of a mapped file: minor in a warm cache, major in a cold one";
    const EXAMPLES: [&'static str; 2] = [
        "layermark mmap-fault -l fuse",
        "layermark mmap-fault --file-size 16M,256M --cache cold -l overlay:upper",
    ];

    fn needs(&self) -> Result<Needs, PointError> {
        let file = PackagedFile::random(self.packaged_name(), self.file_size);
        Ok(Needs {
            open_before: vec![Path::new("packaged").join(&file.path)],
            packaged: vec![file],
            ..Needs::default()
        })
    }

    fn prepare(self, dir: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError> {
        let work = FaultWork::prepare(dir, self, context)?;
        Ok(Box::new(Repeated::new(work)))
    }
}

/// A prepared point.
struct FaultWork {
    p: FaultParams,
    context: Context,
    path: PathBuf,
    /// Not open before the first turn if the point is cold.
    file: Option<File>,
    /// Of the current pass.
    map: Option<Mapping>,
    order: Permutation,
    /// Number of the pass, which decides the page of each window.
    pass: u64,
    /// Touches of the pass so far.
    next: u64,
    touched: u64,
    bad: u64,
    recorder: Recorder,
    /// Recorder for lead-ins.
    uncounted: Recorder,
}

/// Touches the pages of a pass.
struct Touch<'a> {
    map: &'a Mapping,
    order: Permutation,
    /// Offset of the page in its window.
    within: u64,
    bad: u64,
}

impl Step for Touch<'_> {
    /// The header of each block has its offset in the file in bytes 8 to 15.
    #[inline]
    fn run(&mut self, i: u64) -> io::Result<()> {
        let at = self.order.at(i) * WINDOW + self.within;
        let mut offset = [0; 8];
        match self.map.read(at as usize + 8, &mut offset) {
            Ok(_) => {
                self.bad += u64::from(u64::from_le_bytes(offset) != at);
                Ok(())
            }
            Err(at) => Err(lost(at)),
        }
    }
}

#[cold]
fn lost(at: usize) -> io::Error {
    io::Error::other(format!(
        "the page at byte {at} of the mapping could not be read (SIGBUS): the disk is faulty, or the file was cut"
    ))
}

impl FaultWork {
    fn prepare(dir: &Path, p: FaultParams, context: &Context) -> Result<Self, ProbeError> {
        let path = dir.join("packaged").join(p.packaged_name());
        let fail = |what: &str, e: &io::Error| ProbeError::io(what, &path, e);
        let found = fs::metadata(&path).map_err(|e| {
            fail("find the packaged file", &e)
                .hint("the layer was set up without the files of this point")
        })?;
        if found.len() != p.file_size {
            return Err(ProbeError::new(format!(
                "{} has {} bytes instead of {}: the layer does not show the packaged file",
                path.display(),
                found.len(),
                p.file_size
            )));
        }
        let mut file = None;
        if p.cache == Cache::Warm {
            let mut opened = File::open(&path).map_err(|e| fail("open", &e))?;
            // How fast pages are found depends on the memory that they have got: each trial gets others.
            evict(&opened).map_err(|e| fail("sync", &e))?;
            // Without readahead the cache gets single pages: a fault maps all of a large one.
            let random = rustix::fs::fadvise(&opened, 0, None, Advice::Random);
            random.map_err(|e| fail("advise on", &e.into()))?;
            io::copy(&mut opened, &mut io::sink()).map_err(|e| fail("read", &e))?;
            file = Some(opened);
        }
        Ok(Self {
            order: Permutation::new(1, context.seed),
            p,
            context: context.clone(),
            path,
            file,
            map: None,
            pass: 0,
            next: 0,
            touched: 0,
            bad: 0,
            recorder: Recorder::new(),
            uncounted: Recorder::unused(),
        })
    }

    /// Touches of a pass.
    fn windows(&self) -> u64 {
        self.p.file_size / WINDOW
    }

    /// Offset of the page in its window: in 16 passes each page has its turn.
    fn within(&self) -> u64 {
        let page = page_size() as u64;
        self.pass % (WINDOW / page).max(1) * page
    }

    fn failed(&self, what: &str, e: &io::Error) -> ProbeError {
        ProbeError::io(what, &self.path, e)
    }

    /// Opens the file, if it is not open.
    fn open(&mut self) -> Result<&File, ProbeError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(&self.path).map_err(|e| self.failed("open", &e))?,
        };
        Ok(self.file.insert(file))
    }

    /// Number of pages of the last pass whose block is damaged.
    fn damaged(&self) -> Result<u64, ProbeError> {
        let Some(map) = &self.map else { return Ok(0) };
        let mut block = [0; BLOCK];
        let mut damaged = 0;
        for i in 0..self.next {
            let at = self.order.at(i) * WINDOW + self.within();
            let read = map.read(at as usize, &mut block);
            read.map_err(|at| self.failed("read", &lost(at)))?;
            let stamp = data::read_stamp(&block).filter(|stamp| stamp.offset == at);
            damaged += u64::from(stamp.is_none());
        }
        Ok(damaged)
    }
}

impl Repeat for FaultWork {
    fn context(&self) -> &Context {
        &self.context
    }

    /// What was read once is in the cache.
    fn passes(&self) -> Passes {
        Passes {
            most: u64::from(self.p.cache == Cache::Cold),
            ..Passes::default()
        }
    }

    fn look(&mut self) -> Result<Option<f64>, ProbeError> {
        self.open().map(resident::share_of)
    }

    /// A new mapping has no pages.
    fn renew(&mut self, _: &mut dyn FnMut(u64)) -> Result<(), ProbeError> {
        self.map = None;
        let len = self.p.file_size as usize;
        let map = Mapping::new(self.open()?, len, false);
        let map = map.map_err(|e| self.failed("map", &e))?;
        if let Some(map) = &map {
            // A fault that reads reads its own page only.
            map.advise(Advice::Random);
        }
        self.map = map;
        self.pass += 1;
        self.next = 0;
        let seed = data::derive(self.context.seed, &format!("faults {}", self.pass));
        self.order = Permutation::new(self.windows(), seed);
        Ok(())
    }

    fn go(&mut self, extent: Extent, beat: &mut dyn FnMut(u64)) -> Result<Stretch, ProbeError> {
        let part = OpRange {
            from: self.next,
            to: self.windows(),
            limit_ns: extent.ns,
        };
        let within = self.within();
        let map = self
            .map
            .as_ref()
            .ok_or_else(|| ProbeError::new("mmap-fault: the file is not mapped"))?;
        let mut touch = Touch {
            map,
            order: self.order,
            within,
            bad: 0,
        };
        let (source, recorder) = if extent.counted {
            (Some(selftest::source()), &mut self.recorder)
        } else {
            (None, &mut self.uncounted)
        };
        let driven = drive::drive(source, part, recorder, beat, &mut touch);
        self.bad += touch.bad;
        let driven = driven.map_err(|e| ProbeError::io("read a page of", &self.path, &e.error))?;
        self.next = driven.next;
        self.touched += driven.ops;
        Ok(Stretch {
            elapsed_ns: driven.span.net_ns(),
            waited_ns: driven.span.waited.ns(),
            ops: driven.ops,
            bytes: driven.ops * page_size() as u64,
            over: self.next == self.windows(),
            ..Stretch::default()
        })
    }

    /// Reading leaves nothing to write.
    fn settle(&mut self, _: &mut Trial, _: Mark) -> Result<(), ProbeError> {
        Ok(())
    }

    /// Each touch has compared the page's offset. The pages of the last pass are compared as a whole.
    fn end(&mut self, trial: &mut Trial) -> Result<(), ProbeError> {
        let counted = trial.faults.unwrap_or_default();
        trial.figures = FigureValues::of(&FaultTrial {
            faults: counted.minor + counted.major,
            major: counted.major,
        });
        trial.latency = self.recorder.latency();
        trial.verified = Some(Verified {
            records: self.touched,
            bad: self.bad.max(self.damaged()?),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use layermark_model::{Point, WorkGroup, protocol::TurnRequest};
    use serde_json::json;

    use super::*;
    use crate::{Workload, workloads::ends::testing};

    /// Windows of the file.
    const WINDOWS: u64 = 32;

    fn points() -> Vec<Point> {
        let params = json!({"file_size": WINDOWS * WINDOW});
        testing::points(&WORKLOAD, params).unwrap()
    }

    /// The first point, warm, with its file in a directory on a disk.
    fn packaged() -> (tempfile::TempDir, PathBuf, Point) {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let point = points().remove(0);
        let files: Vec<_> = point.needs.packaged_files().collect();
        crate::packaged::write(&dir.path().join("packaged"), &files, 3, &|| true).unwrap();
        let path = dir.path().join("packaged").join(&files[0].path);
        (dir, path, point)
    }

    /// A trial of two turns, each a pass.
    fn trial(dir: &Path, point: &Point, between: impl FnOnce()) -> Result<Trial, ProbeError> {
        let mut work = WORKLOAD.prepare(dir, point, &Context::least())?;
        let mut trial = Trial::default();
        let ask = |round| TurnRequest {
            round,
            ns: 0,
            lead_in_ns: 0,
        };
        work.turn(&ask(0), &mut trial, &mut |_, _| {})?;
        between();
        work.turn(&ask(1), &mut trial, &mut |_, _| {})?;
        work.settle(&mut trial)?;
        work.end(&mut trial)?;
        Ok(trial)
    }

    #[test]
    fn every_touch_is_a_fault_and_every_page_is_checked() {
        let (dir, _, point) = packaged();
        let trial = trial(dir.path(), &point, || {}).unwrap();
        let (ops, faults) = (trial.ops(), trial.faults.unwrap());
        assert_eq!(ops, 2 * WINDOWS);
        assert!(faults.minor + faults.major >= ops, "{faults:?} for {ops}");
        let expected = Verified {
            records: ops,
            bad: 0,
        };
        assert_eq!(trial.verified, Some(expected));
        assert_eq!(trial.bytes(), ops * page_size() as u64);
        assert!(trial.figures.number("faults") >= Some(ops as f64));
    }

    #[test]
    fn a_page_with_the_data_of_another_place_is_found() {
        let (dir, path, point) = packaged();
        let file = File::options().write(true).open(path).unwrap();
        for page in (0..WINDOW).step_by(BLOCK) {
            file.write_all_at(&[1; 16], 5 * WINDOW + page).unwrap();
        }
        let verified = trial(dir.path(), &point, || {}).unwrap().verified.unwrap();
        assert_eq!(verified.bad, 2, "in each pass");
    }

    #[test]
    fn a_file_that_is_cut_is_an_error_and_not_the_end_of_the_probe() {
        let (dir, path, point) = packaged();
        let cut = || {
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(WINDOW)
        };
        let e = trial(dir.path(), &point, || cut().unwrap()).err().unwrap();
        assert!(e.message.contains("could not be read (SIGBUS)"), "{e}");
        let e = WORKLOAD.prepare(dir.path(), &point, &Context::least());
        let e = e.err().unwrap();
        assert!(e.message.contains("has 65536 bytes instead of"), "{e}");
    }

    #[test]
    fn a_cold_point_is_used_up_by_its_only_pass() {
        let (dir, _, _) = packaged();
        let cold = &points()[1];
        assert!(cold.meaning.is_cold() && cold.meaning.divided.unwrap().uses_up);
        let trial = trial(dir.path(), cold, || {}).unwrap();
        assert_eq!((trial.ops(), trial.passes.len()), (WINDOWS, 1));
        assert_eq!(trial.verified.unwrap().bad, 0);
    }

    #[test]
    fn points_say_what_they_are() {
        let all = points();
        let labels: Vec<&str> = all.iter().map(|p| p.label.as_str()).collect();
        assert_eq!(
            labels,
            ["page faults of 2M, warm", "page faults of 2M, cold"]
        );
        assert_eq!(all[0].meaning.describe(&[]), "page faults, 2M file, warm");
        assert_eq!(all[0].meaning.group(), WorkGroup::Reading);
        assert_eq!(all[0].meaning.value(Quantity::DataSize), Some(2 << 20));
        let e = testing::points(&WORKLOAD, json!({"file_size": "4K"})).unwrap_err();
        assert!(e.message.starts_with("mmap-fault: `file_size` = 4K"), "{e}");
    }
}
