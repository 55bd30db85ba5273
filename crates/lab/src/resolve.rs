//! Turns a plan as written into layers and points to run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use layermark_layers::{Missing, OtherSide, PathEnd, Storage};
use layermark_model::{
    BASELINE, Environment, Facts, LayerRun, LayerStatus, NearEnd, Plan, PlanError, Point, Run,
    SelfTest, Spec, Target, TrialRecord, random,
};
use layermark_probe::{Placed, Purpose, workloads};

use crate::{Catalog, LabError, MAX_BLOCKS, Request, decide::skips::Work, ends::Ends, environment};

/// Maximum number of blocks, and of sessions, of a run. Plans may not request more.
pub(crate) const MOST: u32 = 10_000;

/// Maximum number of points of a plan: more than a run could ever complete.
const MOST_POINTS: usize = 10_000;

/// A plan with every default filled in.
pub(crate) struct Resolved {
    /// With every default written out, so that a replay is the same run.
    pub plan: Plan,
    pub layers: Vec<LayerRun>,
    pub points: Vec<Point>,
    /// Values of the variables that the points name.
    pub env: Environment,
    pub seed: u64,
    /// Names of layers that this machine lacks and the plan does not name.
    pub lacking: Vec<String>,
    /// Files of this host that the points need in each layer. See [`crate::check::possible`].
    pub placed: Vec<Placed>,
}

/// The points of a plan for a fleet, whose hosts all do the same work.
pub(crate) fn fleet_points(plan: &Plan, catalog: Catalog) -> Result<Vec<Point>, LabError> {
    let points = points(plan, catalog)?;
    match points.iter().find(|point| point.needs.near.has_two()) {
        None => Ok(points),
        Some(point) => Err(LabError::TwoEnds {
            point: point.label.clone(),
            workload: point.workload.clone(),
        }),
    }
}

pub(crate) fn resolve(request: &Request) -> Result<Resolved, LabError> {
    let mut plan = request.plan.clone();
    plan.check()?;
    let catalog = request.catalog;
    let env = environment::take(&mut plan, &request.env, catalog)?;
    let points = points(&plan, catalog)?;
    let labels: Vec<&str> = points.iter().map(|p| p.label.as_str()).collect();
    if let Some(name) = plan.unknown_in_confirm(&labels) {
        return Err(LabError::Confirm {
            name: name.to_owned(),
            known: labels.into_iter().map(str::to_owned).collect(),
        });
    }
    let seed = plan.seed.unwrap_or_else(draw_seed);
    // The plan names no layers, so one that this machine lacks is not an error.
    let named = !plan.layers.is_empty();
    if !named {
        plan.layers = defaults(&points, catalog)?;
    }
    let asked = plan.baseline.as_ref();
    plan.layers = with_baseline(std::mem::take(&mut plan.layers), asked, catalog)?;
    let work = Work::of(&points);
    check_ends(&plan.layers, &points, &work, catalog)?;
    let skips = |spec: &Spec| work.skipped_in(spec, catalog);
    let mut layers = Vec::new();
    for spec in &plan.layers {
        layers.push(layer_run(spec, skips(spec), &work, catalog, false)?);
    }
    if plan.baseline.is_some() {
        is_usable(&layers[BASELINE], &points)?;
    }
    let compared: Vec<&str> = layers.iter().skip(1).map(|l| l.name.as_str()).collect();
    for gate in &request.gates {
        gate.check(&compared, &labels)?;
    }
    if plan.control {
        let baseline = &plan.layers[BASELINE];
        layers.push(layer_run(baseline, skips(baseline), &work, catalog, true)?);
    }
    let up = |l: &&LayerRun| !l.control && l.status != LayerStatus::Failed;
    plan.limit_budget(layers.iter().filter(up).count())?;
    plan.seed = Some(seed);
    plan.precision = Some(plan.precision());
    let lacking = if named {
        Vec::new()
    } else {
        names_of_failed(&layers)
    };
    Ok(Resolved {
        plan,
        layers,
        points,
        env,
        seed,
        lacking,
        placed: Vec::new(),
    })
}

/// Leaves out the layers and points that an earlier run of this plan has left out.
pub(crate) fn leave_out(layers: &mut [LayerRun], left_out: Option<&[LayerRun]>) {
    for old in left_out.unwrap_or_default() {
        if let Some(layer) = layers.iter_mut().find(|l| l.name == old.name) {
            layer.skips.clone_from(&old.skips);
            if old.status == LayerStatus::LeftOut {
                layer.status = old.status;
                layer.reason.clone_from(&old.reason);
                layer.hint.clone_from(&old.hint);
                layer.enough_s = old.enough_s;
            }
        }
    }
}

/// Checks that the layers and workloads of a stored run still exist.
pub(crate) fn known(run: &Run, catalog: Catalog) -> Result<(), LabError> {
    let cannot = |why: String| LabError::CannotResume {
        run: run.id.clone(),
        store: run.store.clone(),
        why,
    };
    for point in &run.points {
        catalog
            .workload(&point.workload)
            .map_err(|e| cannot(e.to_string()))?;
    }
    for layer in &run.layers {
        let (near, far) = layer.spec.ends();
        let unknown = [near, far]
            .into_iter()
            .find(|end| catalog.layer(&end.layer).is_none() && !end.is_native());
        if let Some(end) = unknown {
            let why = format!("this layermark has no layer `{}`", end.layer);
            return Err(cannot(why));
        }
    }
    if run.layers.is_empty() || run.points.is_empty() {
        return Err(cannot("it has no layers or no points".into()));
    }
    Ok(())
}

/// Attaches to the points of a stored run what they need.
pub(crate) fn attach_needs(points: &mut [Point], catalog: Catalog) -> Result<(), LabError> {
    for point in points {
        *point = catalog
            .workload(&point.workload)?
            .read(point, Purpose::Run)?;
    }
    Ok(())
}

/// Points as they are run in a layer, by indices of layer and point, where that may differ from the point
/// of the run. Made before the run, so that it asks no workload.
pub(crate) fn in_layers(
    layers: &[LayerRun],
    points: &[Point],
    catalog: Catalog,
) -> Result<BTreeMap<(usize, usize), Point>, LabError> {
    let mut all = BTreeMap::new();
    let differing = || {
        points
            .iter()
            .enumerate()
            .filter(|(_, at)| at.needs.per_layer)
    };
    let ready = |(_, layer): &(usize, &LayerRun)| layer.status == LayerStatus::Ready;
    for (index, layer) in layers.iter().enumerate().filter(ready) {
        for (point, at) in differing() {
            let workload = catalog.workload(&at.workload)?;
            let here = workload.read(at, Purpose::Layer(&layer.spec))?;
            all.insert((index, point), here);
        }
    }
    Ok(all)
}

/// Refuses trials that no run can have, because a store may be damaged or made by hand. Resuming
/// from a very large block, session or place in the order would never end.
pub(crate) fn possible(run: &Run, trials: &[TrialRecord]) -> Result<(), LabError> {
    let most = if run.plan.budget.is_some() {
        MOST
    } else {
        MAX_BLOCKS
    };
    let blocks = run.plan.blocks.unwrap_or(0).max(most);
    let numbers = |t: &TrialRecord| {
        let cell = t.cell;
        [
            ("block", u64::from(cell.block), u64::from(blocks.min(MOST))),
            ("session", u64::from(cell.session), u64::from(MOST)),
            ("layer", cell.layer as u64, run.layers.len() as u64),
            ("point", cell.point as u64, run.points.len() as u64),
            ("trial", t.seq, u64::from(u32::MAX)),
        ]
    };
    let wrong = trials
        .iter()
        .flat_map(|t| numbers(t).map(|n| (t.seq, n)))
        .find(|(_, (_, number, limit))| number >= limit);
    match wrong {
        None => Ok(()),
        Some((seq, (what, number, limit))) => Err(LabError::CannotResume {
            run: run.id.clone(),
            store: run.store.clone(),
            why: format!(
                "its trial {seq} is stored with {what} {number}, and the maximum is {limit}"
            ),
        }),
    }
}

/// Tries layers of a stored run again that failed: what this machine lacked may be installed now,
/// or a server restarted. Returns the names of those that are still missing.
pub(crate) fn look_again(run: &mut Run, catalog: Catalog) -> Result<Vec<String>, LabError> {
    let work = Work::of(&run.points);
    for layer in &mut run.layers {
        if layer.status == LayerStatus::Failed {
            let skips = std::mem::take(&mut layer.skips);
            *layer = layer_run(&layer.spec, skips, &work, catalog, layer.control)?;
        }
    }
    Ok(names_of_failed(&run.layers))
}

fn names_of_failed(layers: &[LayerRun]) -> Vec<String> {
    layers
        .iter()
        .filter(|l| l.status == LayerStatus::Failed)
        .map(|l| l.name.clone())
        .collect()
}

pub(crate) fn points(plan: &Plan, catalog: Catalog) -> Result<Vec<Point>, LabError> {
    let mut points: Vec<Point> = Vec::new();
    let mut known: BTreeSet<String> = BTreeSet::new();
    for (at, settings) in plan.work.iter().enumerate() {
        let workload = catalog.workload(&settings.workload)?;
        let mut own = workloads::points(workload, settings, plan.scale)?;
        // Several works may add the same point of another workload.
        own.retain(|p| p.workload == settings.workload || !known.contains(&p.key()));
        for point in &mut own {
            point.work = Some(at);
        }
        known.extend(own.iter().map(Point::key));
        points.extend(own);
        if points.len() > MOST_POINTS {
            return Err(LabError::Plan(PlanError::Range {
                key: "work",
                value: format!("[{} points or more]", points.len()),
                must: "shorten a list, or write several plans: one has at most 10000 points",
            }));
        }
    }
    let mut keys: HashMap<String, String> = HashMap::new();
    for point in &points {
        if let Some(first) = keys.insert(point.key(), point.label.clone()) {
            return Err(LabError::DuplicatePoint {
                first,
                second: point.label.clone(),
            });
        }
    }
    let mut labels = BTreeSet::new();
    for point in &mut points {
        point.label = unique(&point.label, &mut labels);
    }
    Ok(points)
}

/// `read`, then `read (2)`, `read (3)`: a label names one point of a run.
fn unique(label: &str, taken: &mut BTreeSet<String>) -> String {
    let mut name = label.to_owned();
    let mut count = 1;
    while !taken.insert(name.clone()) {
        count += 1;
        name = format!("{label} ({count})");
    }
    name
}

fn defaults(points: &[Point], catalog: Catalog) -> Result<Vec<Spec>, LabError> {
    let (mut all_paths, mut on_sides) = (true, true);
    for point in points {
        let near = point.needs.near;
        all_paths &= near == NearEnd::Path;
        on_sides &= near.is_other_side();
    }
    let mut specs = Vec::new();
    for layer in catalog.layers {
        let Ok(info) = layer.describe(&Spec::bare(layer.id())) else {
            continue;
        };
        let texts = if all_paths {
            info.default_paths
        } else {
            info.defaults
        };
        for text in texts {
            // These are written in the layer's source, and a test of the layers reads them all.
            let spec: Spec = text
                .parse()
                .map_err(|_| LabError::DuplicateLayer((*text).to_owned()))?;
            let info = catalog.describe(&spec);
            if !on_sides || info.is_some_and(|info| info.other_side == OtherSide::Yes) {
                specs.push(spec);
            }
        }
    }
    Ok(specs)
}

/// Puts the baseline first: the layer that the plan asks for, else `native`, unless the first layer
/// has no files. It is added if it is missing.
fn with_baseline(
    mut specs: Vec<Spec>,
    asked: Option<&Spec>,
    catalog: Catalog,
) -> Result<Vec<Spec>, LabError> {
    let at = match asked {
        Some(asked) => named(&specs, asked)?,
        None => specs.iter().position(Spec::is_native),
    };
    let is_enough = specs.first().is_some_and(|s| has_no_files(s, catalog));
    match (at, asked) {
        (Some(at), _) => specs[..=at].rotate_right(1),
        (None, Some(asked)) => specs.insert(0, asked.clone()),
        (None, None) if !is_enough => specs.insert(0, Spec::bare("native")),
        (None, None) => {}
    }
    let mut seen = BTreeMap::new();
    for spec in &specs {
        match seen.insert(spec.name(), spec) {
            Some(other) if other == spec => {
                return Err(LabError::DuplicateLayer(spec.to_string()));
            }
            Some(other) => {
                return Err(LabError::SameName {
                    name: spec.name(),
                    layers: [other.to_string(), spec.to_string()],
                });
            }
            None => {}
        }
    }
    Ok(specs)
}

/// Index of a layer: by its spec, else by its label, else by its spec without the label.
fn named(specs: &[Spec], asked: &Spec) -> Result<Option<usize>, LabError> {
    let name = asked.to_string();
    let find = |is: &dyn Fn(&Spec) -> bool| specs.iter().position(is);
    let exact = find(&|s| s == asked).or_else(|| find(&|s| s.label() == Some(&name)));
    if exact.is_some() {
        return Ok(exact);
    }
    let fitting: Vec<usize> = (0..specs.len())
        .filter(|at| specs[*at].unlabelled() == *asked)
        .collect();
    match fitting[..] {
        [first, second, ..] => Err(LabError::BaselineTwice {
            name,
            layers: [first, second].map(|at| specs[at].to_string()),
            label: specs[first].name(),
        }),
        _ => Ok(fitting.first().copied()),
    }
}

/// Refuses a baseline that this machine lacks, or that can do none of the points.
fn is_usable(baseline: &LayerRun, points: &[Point]) -> Result<(), LabError> {
    let why = |point: &Point| baseline.skips.get(&point.label);
    let skipped = points.first().and_then(why);
    let skipped = skipped.filter(|_| points.iter().all(|p| why(p).is_some()));
    match baseline.reason.as_ref().or(skipped) {
        None => Ok(()),
        Some(reason) => Err(LabError::Baseline {
            name: baseline.name.clone(),
            reason: reason.clone(),
            hint: baseline
                .hint
                .clone()
                .or_else(|| Some("name another layer with --baseline".into())),
        }),
    }
}

/// Whether the layer has no files, so it cannot be compared with a disk or be mistaken for one.
pub(crate) fn has_no_files(spec: &Spec, catalog: Catalog) -> bool {
    let layer = catalog.describe(spec);
    layer.is_some_and(|l| l.storage == Storage::Nowhere)
}

/// Whether no point would touch a layer: all have two ends, which meet on this host's loopback, and none
/// has a file in it.
fn is_passed_by(spec: &Spec, points: &[Point], catalog: Catalog) -> bool {
    let Some(path) = catalog.describe(spec).map(|layer| layer.path) else {
        return false;
    };
    let on_loopback = path.with_host == PathEnd::Yes && !path.has_network();
    let of_network = |point: &Point| {
        let needs = &point.needs;
        point.meaning.target == Target::Network && needs.near.has_two() && needs.space == 0
    };
    !spec.is_native() && spec.near.is_none() && on_loopback && points.iter().all(of_network)
}

/// Refuses a path (client and server) for work with one end.
fn check_ends(
    layers: &[Spec],
    points: &[Point],
    work: &Work,
    catalog: Catalog,
) -> Result<(), LabError> {
    if let Some(layer) = layers.iter().find(|l| is_passed_by(l, points, catalog)) {
        return Err(LabError::PassedBy {
            layer: layer.to_string(),
            workload: points[0].workload.clone(),
            other: catalog
                .describe(layer)
                .and_then(|info| Some(info.path.given_network(layer)?.to_string())),
        });
    }
    let one_side = |layer: &Spec| work.not_on_both_sides(layer, catalog);
    if let Some((layer, why)) = layers.iter().find_map(|l| Some((l, one_side(l)?))) {
        return Err(LabError::OneSide {
            layer: layer.to_string(),
            workload: points[0].workload.clone(),
            why,
        });
    }
    match (layers.iter().find(|l| l.near.is_some()), points.first()) {
        (Some(path), Some(point)) if !work.have_two_ends() => Err(LabError::PathOfOneEnd {
            path: path.clone(),
            workload: point.workload.clone(),
        }),
        _ => Ok(()),
    }
}

fn layer_run(
    spec: &Spec,
    skips: BTreeMap<String, String>,
    work: &Work,
    catalog: Catalog,
    control: bool,
) -> Result<LayerRun, LabError> {
    let two_ends = work.has_two_ends_but_for(&skips);
    let missing = Ends::of(spec, two_ends, "path", catalog)?.missing(catalog);
    let name = if control {
        format!("{} (control)", spec.name())
    } else {
        spec.name()
    };
    Ok(LayerRun {
        spec: spec.clone(),
        name,
        status: if missing.is_empty() {
            LayerStatus::Ready
        } else {
            LayerStatus::Failed
        },
        reason: (!missing.is_empty()).then(|| format!("needs {}", join(&missing, |m| &m.what))),
        hint: (!missing.is_empty()).then(|| join(&missing, |m| &m.hint)),
        enough_s: None,
        facts: Facts::default(),
        setup_s: 0.0,
        self_test: SelfTest::default(),
        read_only: false,
        skips,
        control,
    })
}

fn join(missing: &[Missing], part: impl Fn(&Missing) -> &String) -> String {
    let parts: Vec<&str> = missing.iter().map(|m| part(m).as_str()).collect();
    parts.join("; ")
}

/// A random seed, short enough to type.
fn draw_seed() -> u64 {
    random() & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use layermark_model::Settings;

    use super::*;

    #[test]
    fn what_runs_without_a_layer_being_named_depends_on_the_ends_of_the_work() {
        let catalog = Catalog::default();
        let points = |workload: &str| {
            let settings = serde_json::json!({"workload": workload});
            let settings: Settings = serde_json::from_value(settings).unwrap();
            let workload = catalog.workload(workload).unwrap();
            workload.points(&settings, 1.0).unwrap()
        };
        let names = |points: &[Point]| {
            let specs = defaults(points, catalog).unwrap();
            specs.iter().map(Spec::to_string).collect::<Vec<_>>()
        };
        let (net, file) = (points("net"), points("file"));
        assert_eq!(names(&net), ["native", "netns"]);
        let of_files = names(&file);
        assert!(of_files.contains(&"overlay:upper".into()), "{of_files:?}");
        assert!(!of_files.contains(&"netns".into()), "{of_files:?}");
        assert_eq!(names(&[net, file].concat()), of_files);
    }

    #[test]
    fn a_baseline_is_named_by_its_layer_or_its_label() {
        let specs = |layers: &[&str]| -> Vec<Spec> {
            layers.iter().map(|layer| layer.parse().unwrap()).collect()
        };
        let first = |layers: &[&str], asked: &str| {
            with_baseline(
                specs(layers),
                Some(&asked.parse().unwrap()),
                Catalog::default(),
            )
            .map(|specs| specs[0].to_string())
        };
        assert_eq!(
            first(&["tmpfs", "fuse:label=a"], "a").unwrap(),
            "fuse:label=a"
        );
        assert_eq!(
            first(&["tmpfs", "fuse:label=a"], "fuse").unwrap(),
            "fuse:label=a"
        );
        assert_eq!(
            first(&["tmpfs", "fuse:label=a", "fuse"], "fuse").unwrap(),
            "fuse"
        );
        assert_eq!(first(&["tmpfs"], "fuse").unwrap(), "fuse");
        let twice = first(&["fuse:label=a", "tmpfs", "fuse:label=b"], "fuse").unwrap_err();
        assert_eq!(
            twice.to_string(),
            "the baseline `fuse` may be `fuse:label=a` or `fuse:label=b`"
        );
        assert_eq!(
            twice.hint().unwrap(),
            "name it by its label: --baseline 'a'"
        );
        assert_eq!(twice.exit_code(), 2);
        let equal = first(&["fuse:label=a", "tmpfs:label=a"], "a").unwrap_err();
        assert!(matches!(equal, LabError::SameName { .. }), "{equal}");
    }
}
