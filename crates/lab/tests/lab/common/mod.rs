//! A scripted layer whose values depend on nothing but the work's seed and the layer, so that a run
//! that was stopped and resumed measures what an uninterrupted one does; and what all tests need.
#![allow(dead_code)] // each test file uses a part of it

use std::{
    fmt::Write as _,
    io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use layermark_lab::{Catalog, Ended, Event, LabError, Outcome, Request, Resume, Stop};
use layermark_layers::{
    Base, End, Group, Layer, LayerError, LayerInfo, LayerOption, Place, PlaceInfo, Storage, Undo,
    Wire,
    scripted::{self, Lab, Next, Script},
};
use layermark_model::{
    CpuTime, DeviceBytes, DroppedCaches, Facts, Missing, NearEnd, Needs, Plan, Point, PointError,
    Run, Settings, Spec, Trial, TrialRecord, Turn,
    protocol::{FromProbe, Job, TurnRequest, Turned},
};
use layermark_probe::{Context, ProbeError, Purpose, Work, Workload, WorkloadInfo};
use layermark_store::Store;

/// What the helpers of a scripted layer use in the first turn and its lead-in, which lasts a quarter as
/// long, and after the last turn.
pub const DURING: u64 = 5;
pub const AFTERWARDS: u64 = 1_000_000;

/// Takes the place of the layers' own `mock`, whose noise depends on how long its probe lives.
pub struct Scripted;

/// The runs at work, by their directories: a scripted layer moves the clock of its own.
static STOPS: Mutex<Vec<(PathBuf, Stop)>> = Mutex::new(Vec::new());

/// With layers that are slow: see [`ScriptedPlace::make`].
pub const SLOW: Catalog = Catalog {
    layers: &[&Scripted, &Ends],
    workloads: layermark_probe::workloads::ALL,
};

pub const CATALOG: Catalog = Catalog {
    layers: &[&Scripted],
    workloads: layermark_probe::workloads::ALL,
};

/// The same; its variant says what the far end of work with two ends does. It `refuses` the port, is
/// `silent` when it is to serve, `stays` when it is to end, or `dies` in round 4 of the near end, which
/// then waits for it (`fails`: which then says so).
struct Ends;

impl Layer for Ends {
    fn id(&self) -> &'static str {
        "ends"
    }
    fn options(&self) -> &'static [LayerOption] {
        &[]
    }
    fn describe(&self, _: &Spec) -> Result<LayerInfo, LayerError> {
        Ok(LayerInfo::new(Group::UserSpace, "a script"))
    }
    fn missing(&self, _: &Spec) -> Vec<Missing> {
        Vec::new()
    }
    fn open(
        &self,
        base: &Base,
        spec: &Spec,
        undo: &mut Undo,
    ) -> Result<Box<dyn Place>, LayerError> {
        Scripted.open(base, spec, undo)
    }
}

/// Of the far ends that serve.
pub static SECRETS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// `file`, said to have two ends: who works is scripted.
struct TwoEnds;

pub const TWO_ENDS: Catalog = Catalog {
    layers: &[&Scripted, &Ends],
    workloads: &[&TwoEnds],
};

impl Workload for TwoEnds {
    fn info(&self) -> &'static WorkloadInfo {
        file().info()
    }
    fn points(&self, settings: &Settings, scale: f64) -> Result<Vec<Point>, PointError> {
        let points = file().points(settings, scale)?.into_iter();
        Ok(points.map(with_two_ends).collect())
    }
    fn read(&self, at: &Point, purpose: Purpose<'_>) -> Result<Point, PointError> {
        file().read(at, purpose).map(with_two_ends)
    }
    fn prepare(&self, _: &Path, _: &Point, _: &Context) -> Result<Box<dyn Work>, ProbeError> {
        Err(ProbeError::new("it is scripted"))
    }
}

fn with_two_ends(at: Point) -> Point {
    let needs = Needs {
        near: NearEnd::Path,
        ..Needs::default()
    };
    Point {
        needs: Arc::new(needs),
        ..at
    }
}

fn file() -> &'static dyn Workload {
    layermark_probe::workloads::find("file").unwrap()
}

impl Layer for Scripted {
    fn id(&self) -> &'static str {
        "mock"
    }
    fn options(&self) -> &'static [LayerOption] {
        &[]
    }
    fn describe(&self, _: &Spec) -> Result<LayerInfo, LayerError> {
        let mut info = LayerInfo::new(Group::UserSpace, "a script");
        info.defaults = &["mock"];
        info.storage = Storage::Nowhere;
        Ok(info)
    }
    fn missing(&self, _: &Spec) -> Vec<Missing> {
        Vec::new()
    }
    fn open(&self, base: &Base, spec: &Spec, _: &mut Undo) -> Result<Box<dyn Place>, LayerError> {
        assert_eq!(
            std::fs::read_dir(&base.dir).unwrap().count(),
            0,
            "a fresh directory"
        );
        // `s0-2`: the second layer; the same in each session.
        let name = base.dir.file_name().unwrap().to_str().unwrap();
        let layer = name.split_once('-').unwrap().1.parse().unwrap();
        let stops = STOPS.lock().unwrap();
        let own = stops.iter().find(|(dir, _)| base.dir.starts_with(dir));
        Ok(Box::new(ScriptedPlace {
            stop: own.map(|(_, stop)| stop.clone()),
            info: PlaceInfo::of_dir(base.dir.clone()),
            spec: spec.clone(),
            layer,
            upkeep: Arc::default(),
            far: Arc::default(),
        }))
    }
}

#[derive(Clone)]
struct ScriptedPlace {
    info: PlaceInfo,
    spec: Spec,
    layer: u64,
    /// Nanoseconds that its helpers have used.
    upkeep: Arc<AtomicU64>,
    far: Arc<Mutex<FarEnd>>,
    stop: Option<Stop>,
}

/// What the far end does, as the near one knows it.
#[derive(Default)]
struct FarEnd {
    /// What it was told to serve, and has not been told to end.
    serves: Option<Box<Job>>,
    /// Ends its probe.
    ends: Option<[UnixStream; 2]>,
}

/// The port of every far end.
const PORT: u16 = 4711;

impl ScriptedPlace {
    fn number(&self, option: &str) -> Option<f64> {
        self.spec.options.get(option).map(|v| v.parse().unwrap())
    }

    /// Whether the script says so for this round of each trial. The options are those of the
    /// product's mock; here `silent-after` means that nothing is said in that round,
    /// `rubbish-after` that the turn is told twice, `protocol` that it is told for another job,
    /// `fail-start` in round 4 for an earlier one, `fail-mount` that the layer is gone in round 4, and
    /// `fail-facts` that a neighbour's data is written back in all of its turns.
    fn at(&self, option: &str, round: u32) -> bool {
        self.number(option) == Some(f64::from(round))
    }

    /// A turn of a millisecond or so; counts it in the trial.
    fn take_turn(&self, job: &Job, round: u32, trial: &mut Trial) -> Turn {
        let noise = self.number("noise").unwrap_or(0.0) * scripted::normal(job.seed, self.layer);
        let ns = self.number("ns").unwrap_or(1000.0) * noise.exp();
        let turn = Turn {
            round,
            elapsed_ns: (ns * 1000.0) as u64,
            ops: 1000,
            bytes: 4_096_000,
            ..Turn::default()
        };
        trial.turns.push(turn);
        scripted::count(trial, turn);
        turn
    }

    /// Bytes that the device writes in a turn.
    fn write_back(&self) -> u64 {
        if self.spec.options.contains_key("fail-facts") {
            8 << 20
        } else {
            4096
        }
    }

    /// Makes the files of a job on the run's clock: `slow` is how long that takes, s, and `stuck` the job
    /// that never gets there. Returns whether they are made.
    fn make(&self, job: u64) -> bool {
        let pass = |seconds: f64| {
            let stop = self.stop.as_ref().unwrap();
            stop.pass(Duration::from_secs_f64(seconds));
        };
        self.number("slow").into_iter().for_each(pass);
        let is_stuck = self.number("stuck").is_some_and(|at| job as f64 >= at);
        if is_stuck {
            pass(3600.0);
        }
        !is_stuck
    }

    /// As if it were unmounted.
    fn vanish(&self) {
        std::fs::remove_dir(&self.info.dir).unwrap();
    }
}

impl Place for ScriptedPlace {
    fn info(&self) -> &PlaceInfo {
        &self.info
    }
    fn start(&mut self, end: End) -> Result<Wire, LayerError> {
        Ok(self.wire(end == End::Near))
    }
    fn facts(&self) -> Result<Facts, LayerError> {
        let mut facts = Facts::default();
        facts.notes.insert("script".into(), self.spec.to_string());
        Ok(facts)
    }
    fn drop_caches(
        &mut self,
        _: layermark_layers::KernelCaches,
    ) -> Result<DroppedCaches, LayerError> {
        Ok(DroppedCaches::default())
    }
    fn helper_cpu(&self) -> Result<CpuTime, LayerError> {
        Ok(CpuTime {
            ns: self.upkeep.load(SeqCst),
            within_ns: 0,
        })
    }
}

impl ScriptedPlace {
    fn far(&self, does: &str) -> bool {
        self.spec.variant.as_deref() == Some(does)
    }

    /// Whether the far end serves this job of the near one.
    fn is_served(&self, job: &Job) -> bool {
        let far = self.far.lock().unwrap();
        let (Some(told), Some(peer)) = (&far.serves, &job.peer) else {
            return false;
        };
        let other = told.peer.as_ref().unwrap();
        assert_eq!((told.id, &told.point), (job.id, &job.point));
        assert_eq!((other.port, peer.port), (0, PORT));
        assert!(other.secret == peer.secret && peer.secret.len() == 32);
        if self.far("serves") {
            SECRETS.lock().unwrap().push(peer.secret.clone());
        }
        // Each works in a directory of its own.
        assert!(told.dir != job.dir && Path::new(&job.dir).is_dir());
        true
    }

    /// What the far end says when it is to serve.
    fn accept(&self, job: Box<Job>) -> Option<FromProbe> {
        let id = job.id;
        if self.far("refuses") {
            let message = "bind 127.0.0.1: Address already in use".into();
            return Some(error(id, message, 98));
        }
        self.far.lock().unwrap().serves = Some(job);
        (!self.far("silent")).then_some(FromProbe::Serving { id, port: PORT })
    }

    /// ... and when it is to end that, after the near one has settled.
    fn has_served(&self, id: u64) -> Option<FromProbe> {
        let served = self.far.lock().unwrap().serves.take();
        assert_eq!(served.map(|job| job.id), Some(id));
        (!self.far("stays")).then_some(FromProbe::Settled { id })
    }

    /// In mid-turn. What the near one says of it.
    fn far_end_dies(&self, id: u64) -> Option<FromProbe> {
        for end in self.far.lock().unwrap().ends.iter().flatten() {
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
        let message = "receive: Connection reset by peer".into();
        self.far("fails").then(|| error(id, message, 104))
    }

    fn wire(&mut self, near: bool) -> Wire {
        let (wire, inside) = scripted::connect(&[], self.clone()).unwrap();
        if !near {
            self.far.lock().unwrap().ends = Some(inside);
        }
        wire
    }
}

fn error(id: u64, message: String, errno: i32) -> FromProbe {
    FromProbe::Error {
        id: Some(id),
        message,
        hint: None,
        errno: Some(errno),
        defect: None,
    }
}

impl Script for ScriptedPlace {
    fn prepare(&mut self, job: &Job, lab: &mut Lab<'_>) -> io::Result<()> {
        assert_eq!(job.peer.is_some(), self.is_served(job));
        if !self.make(job.id) {
            return Ok(());
        }
        // In real time, beside other probes; then its probe ends before it has answered.
        if let Some(ms) = self.number("late") {
            std::thread::sleep(Duration::from_millis(ms as u64));
        }
        if self
            .number("ends-late")
            .is_some_and(|at| job.id as f64 >= at)
        {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.number("refuses").is_some() {
            let message = format!("open {}/{}: Too many open files", job.dir, job.id);
            return lab.say(&error(job.id, message, 24));
        }
        lab.say(&FromProbe::Ready { id: job.id })
    }

    fn serve(&mut self, job: Box<Job>, lab: &mut Lab<'_>) -> io::Result<()> {
        let said = self.accept(job);
        said.map_or(Ok(()), |said| lab.say(&said))
    }

    fn turn(
        &mut self,
        job: &Job,
        trial: &mut Trial,
        TurnRequest { round, .. }: TurnRequest,
        lab: &mut Lab<'_>,
    ) -> io::Result<Next> {
        let id = job.id;
        let first = trial.turns.is_empty();
        if first {
            self.upkeep.fetch_add(DURING, SeqCst);
        }
        if first && self.number("error-after").is_some() {
            let message = format!("write {}: No space left on device", job.dir);
            lab.say(&error(id, message, 28))?;
            return Ok(Next::Message);
        }
        if first && self.number("die-after").is_some_and(|at| id as f64 >= at) {
            self.vanish();
        }
        let has = |option| self.spec.options.contains_key(option);
        if round == 4 && has("fail-mount") {
            self.vanish();
        }
        if round == 4 && (self.far("dies") || self.far("fails")) {
            let said = self.far_end_dies(id);
            said.map_or(Ok(()), |said| lab.say(&said))?;
            return Ok(Next::Message);
        }
        if self.at("silent-after", round) {
            return Ok(Next::Message);
        }
        let turned = |id, turn: Turn| FromProbe::Turned {
            id,
            turned: Turned {
                turn,
                uncounted_ns: turn.elapsed_ns / 4,
                device: Some(DeviceBytes {
                    written: self.write_back(),
                    ..DeviceBytes::default()
                }),
                more: true,
                between: has("take"),
                ..Turned::default()
            },
            probe_ns: 0,
        };
        let turn = self.take_turn(job, round, trial);
        let said = if self.at("protocol", round) {
            turned(id + 100, turn)
        } else if round == 4 && has("fail-start") {
            turned(id, Turn { round: 0, ..turn })
        } else {
            turned(id, turn)
        };
        lab.say(&said)?;
        if self.at("rubbish-after", round) {
            lab.say(&said)?;
        }
        Ok(Next::Message)
    }

    fn between(&mut self, id: u64, lab: &mut Lab<'_>) -> io::Result<()> {
        self.upkeep.fetch_add(AFTERWARDS, SeqCst);
        lab.say(&FromProbe::Ready { id })
    }

    fn settle(&mut self, id: u64, is_far: bool, lab: &mut Lab<'_>) -> io::Result<()> {
        if is_far {
            let said = self.has_served(id);
            return said.map_or(Ok(()), |said| lab.say(&said));
        }
        self.upkeep.fetch_add(AFTERWARDS, SeqCst);
        lab.say(&FromProbe::Settled { id })
    }

    fn end(&mut self) {
        self.upkeep.fetch_add(AFTERWARDS, SeqCst);
    }
}

/// So many small points, told apart by their record sizes.
pub fn plan(layers: &[&str], points: usize, more: &str) -> Plan {
    let layers: Vec<String> = layers.iter().map(|l| format!("'{l}'")).collect();
    // Scripted layers are set up in no time, which would always make three.
    let sessions = if more.contains("profile") || more.contains("sessions") {
        ""
    } else {
        "sessions = 1"
    };
    let mut text = format!(
        "name = 'test'\nlayers = [{}]\nseed = 7\n{sessions}\n{more}\n",
        layers.join(", ")
    );
    for point in 0..points {
        let _ = write!(
            text,
            "[[work]]\nworkload = 'file'\nop = 'read'\nfile_size = '32K'\nrecord = {}\n",
            512 << point
        );
    }
    Plan::from_toml(&text).unwrap()
}

/// A store and a directory of their own.
pub struct Bench {
    pub temp: tempfile::TempDir,
    pub store: Store,
    pub events: Vec<Event>,
}

impl Bench {
    pub fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("work")).unwrap();
        let store = Store::open(temp.path().join("store.db")).unwrap();
        Self {
            temp,
            store,
            events: Vec::new(),
        }
    }

    pub fn dir(&self) -> PathBuf {
        self.temp.path().join("work")
    }

    pub fn request(&self, plan: Plan) -> Request {
        let mut request = Request::new(plan, self.dir(), "/proc/self/exe");
        request.silence = Duration::from_secs(1);
        // What is forecast must not depend on what else runs here.
        request.rehearse = false;
        request
    }

    pub fn run(&mut self, request: Request) -> Result<Outcome, LabError> {
        self.run_until(request, u64::MAX)
    }

    /// Asks to stop when so many trials are done.
    pub fn run_until(&mut self, request: Request, trials: u64) -> Result<Outcome, LabError> {
        let stop = Stop::new();
        let asking = stop.clone();
        STOPS.lock().unwrap().push((self.dir(), stop.clone()));
        let events = &mut self.events;
        events.clear();
        let result = layermark_lab::run(request, &mut self.store, &stop, &mut |event| {
            if matches!(event, Event::TrialDone { done, .. } if done == trials) {
                asking.ask();
            }
            events.push(event);
        });
        self.nothing_left();
        result
    }

    /// As for a process that comes after the one that was killed.
    pub fn reopen(&mut self) {
        self.store = Store::open(self.temp.path().join("store.db")).unwrap();
    }

    pub fn resume(&mut self, catalog: Catalog) -> Result<Outcome, LabError> {
        self.resume_with(catalog, None)
    }

    /// With so much time.
    pub fn resume_with(
        &mut self,
        catalog: Catalog,
        budget: Option<&str>,
    ) -> Result<Outcome, LabError> {
        self.resume_as(Resume {
            catalog,
            budget: budget.map(str::to_owned),
            ..Resume::new("last", "/proc/self/exe")
        })
    }

    pub fn resume_as(&mut self, again: Resume) -> Result<Outcome, LabError> {
        let events = &mut self.events;
        events.clear();
        let result = layermark_lab::resume(again, &mut self.store, &Stop::new(), &mut |e| {
            events.push(e);
        });
        self.nothing_left();
        result
    }

    pub fn last(&mut self) -> (Run, Vec<TrialRecord>) {
        // Also one that has measured nothing, which `last` is not.
        let newest = self.store.list(1).unwrap().remove(0).id;
        self.store.load(&newest).unwrap()
    }

    /// Whatever happened, the user's directory is as it was.
    pub fn nothing_left(&self) {
        let left: Vec<_> = std::fs::read_dir(self.dir()).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    pub fn warnings(&self) -> Vec<String> {
        self.events
            .iter()
            .filter_map(|e| match e {
                Event::Warning { text, .. } => Some(text.clone()),
                _ => None,
            })
            .collect()
    }

    pub fn failed_layers(&self) -> Vec<(String, String)> {
        self.events
            .iter()
            .filter_map(|e| match e {
                Event::LayerFailed { name, reason, .. } => Some((name.clone(), reason.clone())),
                _ => None,
            })
            .collect()
    }
}

/// What the report would say: layer over native at a point, block by block.
pub fn ratio(trials: &[TrialRecord], layer: usize, point: usize) -> layermark_stats::Comparison {
    let mut ledger = layermark_model::Ledger::default();
    for record in trials {
        ledger.add(record);
    }
    let cells: std::collections::BTreeSet<(usize, usize)> = trials
        .iter()
        .map(|t| (t.cell.layer, t.cell.point))
        .collect();
    let pairs = |(layer, point): &(usize, usize)| layermark_stats::Cell {
        operation: *point,
        blocks: ledger.pairs(
            (*layer, *point),
            (0, *point),
            layermark_stats::Pair::of_rounds,
        ),
    };
    let cells: Vec<_> = cells.into_iter().filter(|c| c.0 > 0).collect();
    let pairs: Vec<_> = cells.iter().map(pairs).collect();
    let at = cells.iter().position(|c| *c == (layer, point)).unwrap();
    let mut all = layermark_stats::compare_all(&pairs, 0.95, 1);
    all.swap_remove(at).unwrap()
}

pub fn settled(outcome: &Result<Outcome, LabError>) -> bool {
    matches!(outcome, Ok(o) if o.ended == Ended::Settled)
}
