//! `steps`: commands of somebody's daily work, one step each. What a step has done is checked in every
//! layer, and a wrong outcome is an error, never a time.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use layermark_model::{Environment, HostFiles, Needs, Point, PointError, Settings, Spec};
use layermark_sys::packages;
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    Context, Placed, ProbeError, Work, Workload,
    param::{self, Of, Runs},
    programs::{PATH, guard::Guard, which},
    workloads::{launch, work_dir},
};

mod calls;
mod capture;
mod expect;
mod figures;
mod material;
mod params;
pub mod presets;
mod programs;
mod tree;
mod work;

use calls::CallTracer;
use params::{StepCache, StepParams, TreeCopy};
use programs::StepPrograms;

/// Directory of trees below `packaged/`.
const TREES: &str = "steps";

/// How many times the material and `setup`, which come before the first execution, make each of its files.
const ONCE: u64 = 3;

/// The workload `steps`.
pub static WORKLOAD: Of<StepParams> = param::of();

/// Why a command of these settings cannot be started on this host, if its program was not found. Settings that cannot be
/// read are not judged here.
pub fn not_found(settings: &Settings) -> Option<ProbeError> {
    let points = Workload::points(&WORKLOAD, settings, 1.0).ok()?;
    let of = |at: &Point| at.typed::<StepParams>().ok()?.check_programs().err();
    points.iter().find_map(of)
}

impl Runs for StepParams {
    const ABOUT: &'static str =
        "commands of daily work: the time of each, and whether its outcome is right";
    const EXAMPLES: [&'static str; 2] = [
        "layermark steps -l fuse -- ls -l",
        "layermark steps --setup 'touch a' --expect 'line=a' -l fuse ls",
    ];

    fn placed(&self, _: &Environment) -> Result<Vec<Placed>, PointError> {
        let p = self;
        if p.tree.is_empty() {
            return Ok(Vec::new());
        }
        tree::placed(Path::new(&p.tree), &Path::new(TREES).join(name(&p.tree)))
            .map_err(|e| PointError::of("steps", "tree", format!(": {e}")))
    }

    /// Looks for programs that are named without their directory, where natively they are started.
    fn check_programs(&self) -> Result<(), ProbeError> {
        let p = self;
        let found = |program: &str| p.has_path() || which(program, PATH).is_some();
        if let Some(missing) = p.needs.iter().find(|name| !found(name)) {
            return Err(ProbeError::new(format!("`{missing}` is not installed"))
                .hint(packages::install(presets::package(missing))));
        }
        let missing = p
            .programs()
            .find(|name| !name.contains('/') && !found(name));
        missing.map_or(Ok(()), |name| Err(launch::start::not_found(&name)))
    }

    /// Calls are counted natively only: every layer gets the same ones. Those of a cold step are those of
    /// the warm one.
    fn in_layer(self, layer: &Spec) -> Result<Self, PointError> {
        let trace = self.trace && layer.is_native() && self.cache == StepCache::AsIs;
        Ok(Self { trace, ..self })
    }

    fn needs(&self) -> Result<Needs, PointError> {
        let tracing = || Self {
            tracing: true,
            ..self.clone()
        };
        let traced = self.trace && !self.tracing;
        let copied = match self.copy {
            TreeCopy::None => tree::Size::default(),
            _ => tree::size(Path::new(&self.tree))
                .map_err(|e| PointError::of("steps", "tree", format!(": {e}")))?,
        };
        let extra = traced.then(|| param::point(String::new(), &tracing()));
        Ok(Needs {
            files: self.files + copied.files,
            space: copied.bytes,
            first_files: self.files * ONCE,
            extra: extra.transpose()?,
            // Others lie in the step's own directory.
            programs: self.programs().any(|name| !name.contains('/')),
            refresh: self.first,
            host_files: match self.copy {
                _ if self.tree.is_empty() => HostFiles::None,
                TreeCopy::None => HostFiles::Changed,
                TreeCopy::Once | TreeCopy::Each => HostFiles::Read,
            },
            per_layer: self.trace,
            ..Needs::default()
        })
    }

    fn prepare(self, dir: &Path, context: &Context) -> Result<Box<dyn Work>, ProbeError> {
        let p = self;
        let env = launch::params::environment(params::ID, &p.env, &context.env)?;
        let (mut site, home) = launch::site(dir, p.launched(), env)?;
        let place = StepDir::of(dir, &p)?;
        site.dir.clone_from(&place.path);
        let tracer = p
            .tracing
            .then(|| CallTracer::new(dir, &place.path, &site.home));
        let tracer = tracer.transpose()?;
        if let Some(tracer) = &tracer {
            site.p.command = tracer.command(&p.run);
        }
        let (count, changes, checked) = (p.count, p.changes(), p.is_checked());
        let key = param::key(&p)?;
        let source = match (p.copy, packaged(dir, &p)?) {
            (TreeCopy::Once, Some(tree)) if place.new => {
                tree::copy(&tree, &place.path)?;
                None
            }
            (TreeCopy::Each, tree) => tree,
            _ => None,
        };
        if place.new {
            let made = p.material.make(&place.path, p.files);
            made.map_err(|e| ProbeError::io("make files in", &place.path, &e))?;
        }
        let dirty = place.new || changes;
        let guard = Guard::start(StepPrograms::new(site, p, place.new, source)?)?;
        place.keep();
        if dirty {
            // What was written beforehand must not be written back inside the clock.
            context.sync(dir)?;
        }
        Ok(Box::new(work::StepWork {
            guard,
            key,
            count,
            changes,
            checked,
            dir: dir.to_owned(),
            context: context.clone(),
            done: work::Executions::default(),
            tracer,
            _home: home,
        }))
    }
}

/// A name that is the same for the same text.
fn name(text: &str) -> String {
    format!("{:016x}", xxh3_64(text.as_bytes()))
}

/// The directory in which a step works: its tree, or one that steps with the same `setup` share. It
/// stays until the layer is torn down.
struct StepDir {
    path: PathBuf,
    /// Whether it has to be set up.
    new: bool,
    /// How it is set up.
    setup: String,
}

/// Directories that this process has set up, and how. A layer's probe lives for a session.
static SET_UP: Mutex<BTreeSet<(PathBuf, String)>> = Mutex::new(BTreeSet::new());

impl StepDir {
    fn of(dir: &Path, p: &StepParams) -> Result<Self, ProbeError> {
        let mut setup = format!("{} {} {}", p.material.id(), p.files, p.setup);
        if p.copy != TreeCopy::None {
            // A copy that is made anew is not shared with steps that need it as they left it.
            setup = format!("{setup} {} {}", p.copy.id(), p.tree);
        }
        let named = format!("steps-{}", name(&setup));
        let at = |path: PathBuf| {
            let seen = SET_UP.lock().unwrap_or_else(PoisonError::into_inner);
            // A layer whose packaged files are restored may lose its other files as well.
            let new = !path.is_dir() || !seen.contains(&(path.clone(), setup.clone()));
            Self { path, new, setup }
        };
        let tree = packaged(dir, p)?;
        if let Some(path) = tree.filter(|_| p.copy == TreeCopy::None) {
            if p.first {
                // What was set up there is gone.
                let mut seen = SET_UP.lock().unwrap_or_else(PoisonError::into_inner);
                seen.retain(|(there, _)| *there != path);
            }
            return Ok(at(path));
        }
        let own = at(dir.join(named));
        if own.new {
            match afresh(&own.path) {
                Ok(()) => {}
                // A read-only layer has only what it came with.
                Err(e)
                    if p.copy == TreeCopy::None
                        && matches!(e.raw_os_error(), Some(libc::EROFS | libc::EACCES)) =>
                {
                    return Ok(Self {
                        path: dir.to_owned(),
                        ..own
                    });
                }
                Err(e) => return Err(ProbeError::io("make", &own.path, &e)),
            }
        }
        Ok(own)
    }

    fn keep(self) {
        let mut seen = SET_UP.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert((self.path, self.setup));
    }
}

/// The tree of a step as it was put into the layer.
fn packaged(dir: &Path, p: &StepParams) -> Result<Option<PathBuf>, ProbeError> {
    if p.tree.is_empty() {
        return Ok(None);
    }
    let path = dir.join("packaged").join(TREES).join(name(&p.tree));
    if !path.is_dir() {
        return Err(ProbeError::new(format!(
            "{} is not there: the layer was set up without the tree",
            path.display()
        )));
    }
    Ok(Some(path))
}

/// An empty directory, in place of one whose setup failed or whose probe was killed.
fn afresh(path: &Path) -> io::Result<()> {
    work_dir::remove(path)?;
    fs::create_dir(path)
}
