//! Guards against what a plan or store that another user could have written reaches.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use layermark_fd::{HeldDir, is_exposed};
use layermark_lab::LabError;
use layermark_layers::served;
use layermark_model::{Plan, Point, Reach, Reached, Run};
use layermark_probe::workloads;

use crate::failure::Failure;

/// How many options a message names.
const NAMED: usize = 8;
/// Longest text of an option in a message, characters.
const LONGEST: usize = 200;

/// Refuses a plan that other users can change, if it reaches more than the run's directory.
pub fn refuse_plan(what: &str, plan: &Plan) -> Result<(), Failure> {
    refuse(&changeable(what), reached(plan, &points(plan)?))
}

/// The same for a stored run. Its directory is one that the store names, too.
pub fn refuse_run(what: &str, run: &Run) -> Result<(), Failure> {
    let mut all = reached_by(run)?;
    let dir = Path::new(&run.dir);
    if !is_here(dir) {
        all.insert(Reached {
            what: Reach::Path,
            by: format!("--dir {}", run.dir),
        });
    }
    refuse(&changeable(what), all)
}

/// The same for a run that came in a file, whoever owns the file: nobody reads what is packed in it.
pub fn refuse_sent(name: &str, run: &Run) -> Result<(), Failure> {
    refuse(
        &format!("{name} was made by somebody else"),
        reached_by(run)?,
    )
}

fn changeable(what: &str) -> String {
    format!("{what} can be changed by other users")
}

/// What a run reaches by its plan, its points and its layers.
fn reached_by(run: &Run) -> Result<BTreeSet<Reached>, Failure> {
    let mut all = reached(&run.plan, &run.points);
    all.extend(reached(&run.plan, &points(&run.plan)?));
    all.extend(
        run.layers
            .iter()
            .flat_map(|l| layermark_layers::reaches(&l.spec)),
    );
    Ok(all)
}

/// Whether a directory is the current one or below it, and nobody else can lead its path elsewhere: then it
/// is the user's choice. All is below `/`, where services start.
fn is_here(dir: &Path) -> bool {
    let real = |path: &Path| {
        let held = || HeldDir::find(path, false, &mut |_, stat| is_exposed(stat));
        served::ask(path, held).ok().map(|held| held.path)
    };
    let here = real(Path::new(".")).filter(|here| here.parent().is_some());
    here.is_some_and(|here| real(dir).is_some_and(|dir: PathBuf| dir.starts_with(here)))
}

fn reached(plan: &Plan, points: &[Point]) -> BTreeSet<Reached> {
    let cuts = plan.power_cuts.as_ref();
    let cut = cuts.iter().flat_map(|cuts| &cuts.also);
    let layers = plan.named_layers().chain(cut);
    let layers = layers.flat_map(layermark_layers::reaches);
    let programs = cuts.iter().flat_map(|cuts| &cuts.programs);
    let commands = programs.flat_map(|p| [("run", &p.run), ("check", &p.check)]);
    let commands = commands.map(|(key, command)| Reached {
        what: Reach::Program,
        by: format!("power_cuts.programs.{key} {command}"),
    });
    layers
        .chain(commands)
        .chain(points.iter().flat_map(workloads::reaches))
        .collect()
}

fn refuse(what: &str, all: BTreeSet<Reached>) -> Result<(), Failure> {
    if all.is_empty() {
        return Ok(());
    }
    let (more, named) = (all.len().saturating_sub(NAMED), all.into_iter().take(NAMED));
    let named: Vec<String> = named
        .map(|mut reached| {
            if reached.by.chars().count() > LONGEST {
                reached.by = reached.by.chars().take(LONGEST).chain(['…']).collect();
            }
            reached.to_string()
        })
        .collect();
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!(
        "{what}, and reaches more than the run's directory: {}{more}",
        named.join(", ")
    );
    let hint = "read it; if you trust all of this, say: --allow-programs";
    Err(Failure::usage(text).hint(hint))
}

/// The points of a plan. One that cannot be expanded is refused here: what it reaches is not known, and a
/// moment later it may be expanded, since another user has made the directory that it names.
fn points(plan: &Plan) -> Result<Vec<Point>, Failure> {
    let mut all = Vec::new();
    for settings in &plan.work {
        // An unknown workload is never run.
        if let Some(workload) = workloads::find(&settings.workload) {
            let points = workloads::points(workload, settings, plan.scale);
            all.extend(points.map_err(LabError::from)?);
        }
    }
    Ok(all)
}
