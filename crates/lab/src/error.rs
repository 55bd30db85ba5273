use std::path::PathBuf;

use layermark_layers::LayerError;
use layermark_model::{GateError, LABEL, PlanError, PointError, Spec, StoreOption, format_size};
use layermark_store::StoreError;

/// Why a run could not start or continue. Every finished trial is in the store, unless the store
/// itself failed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A value in the plan is invalid.
    #[error("plan: {0}")]
    Plan(#[from] PlanError),
    /// The settings of a workload are invalid. The error names the workload.
    #[error("{0}")]
    Point(#[from] PointError),
    /// No workload has this name.
    #[error("unknown workload `{name}`{}", nearest.as_ref().map(|n| format!(": did you mean `{n}`?")).unwrap_or_default())]
    UnknownWorkload {
        /// As the user wrote it.
        name: String,
        /// The most similar known name.
        nearest: Option<String>,
        /// All known names.
        known: String,
    },
    /// The plan has the same work twice.
    #[error("plan: `{first}` and `{second}` are the same work")]
    DuplicatePoint {
        /// Label of the first point.
        first: String,
        /// Label of the second point.
        second: String,
    },
    /// `confirm` names a point that the plan does not have.
    #[error("plan: `confirm` names `{name}`, which is not one of its points")]
    Confirm {
        /// As the user wrote it.
        name: String,
        /// Names of the plan's points.
        known: Vec<String>,
    },
    /// Work with two ends in a fleet.
    #[error("plan: `{point}` has two ends, and each host of a fleet is one")]
    TwoEnds {
        /// Label of the point.
        point: String,
        /// Its workload.
        workload: String,
    },
    /// A gate that no result can meet.
    #[error("{0}")]
    Gate(#[from] GateError),
    /// Variables of launched programs have no value.
    #[error("no value for {}, which a launched program has in its environment: values are never stored", names.join(", "))]
    NoValue {
        /// Names of the variables.
        names: Vec<String>,
    },
    /// A plan gives one variable two values. Only names are stored, so they could not be told
    /// apart.
    #[error("the variable {name} has two values in this plan")]
    TwoValues {
        /// Its name.
        name: String,
    },
    /// A value was given for a variable that no program uses.
    #[error("no program of this plan takes a variable {name}")]
    NoVariable {
        /// Its name.
        name: String,
    },
    /// A path (client and server) was given for a workload without a network.
    #[error("layer `{path}` is a path, and `{workload}` has one end")]
    PathOfOneEnd {
        /// The path.
        path: Spec,
        /// The workload.
        workload: String,
    },
    /// Work between two ends that would not go through the layer.
    #[error(
        "`{workload}` does not go through layer `{layer}`: it is given no network of its own, and no file is used"
    )]
    PassedBy {
        /// The layer.
        layer: String,
        /// The workload.
        workload: String,
        /// The same layer with a network.
        other: Option<String>,
    },
    /// Work on both sides of a directory, in a layer that shows one.
    #[error("`{workload}` is not for layer `{layer}`: {why}")]
    OneSide {
        /// The layer.
        layer: String,
        /// The workload.
        workload: String,
        /// The reason.
        why: String,
    },
    /// The plan has the same layer twice.
    #[error("layer `{0}` is named twice")]
    DuplicateLayer(String),
    /// Two layers have the same name in the output.
    #[error("layers `{}` and `{}` have the same name: `{name}`", layers[0], layers[1])]
    SameName {
        /// The name.
        name: String,
        /// Both layers.
        layers: [String; 2],
    },
    /// Two layers fit the baseline that was named.
    #[error("the baseline `{name}` may be `{}` or `{}`", layers[0], layers[1])]
    BaselineTwice {
        /// The baseline as the user named it.
        name: String,
        /// Both layers.
        layers: [String; 2],
        /// The label of the first one.
        label: String,
    },
    /// A layer's name, its options or the directory below it is invalid.
    #[error("{0}")]
    Layer(#[from] LayerError),
    /// The directory to work in cannot be used.
    #[error("cannot work in {dir}: {why}", dir = dir.display())]
    Dir {
        /// The directory.
        dir: PathBuf,
        /// The reason.
        why: String,
        /// A command or an option that may help.
        hint: String,
    },
    /// The directory is in a memory file system, which would be mistaken for a disk.
    #[error("{dir} is in memory ({fs}): it would be taken for a disk", dir = dir.display())]
    Tmpfs {
        /// The directory.
        dir: PathBuf,
        /// `tmpfs` or `ramfs`.
        fs: &'static str,
    },
    /// The files do not fit on the disk.
    #[error(
        "{dir} has too little space: {} needed, {} free, of which 10 % of the disk ({}) stay free",
        size(*needed), size(*free), size(*spare), dir = dir.display()
    )]
    Space {
        /// The directory.
        dir: PathBuf,
        /// The most bytes that the plan needs there.
        needed: u64,
        /// Bytes available to this user there.
        free: u64,
        /// Bytes that must stay free.
        spare: u64,
    },
    /// The baseline could not be set up, so there is nothing to compare with.
    #[error("the baseline `{name}` is not there: {reason}")]
    Baseline {
        /// Its name.
        name: String,
        /// The reason.
        reason: String,
        /// A command or an option that may help.
        hint: Option<String>,
    },
    /// What must not be left out does not fit.
    #[error(
        "the budget of {budget} is too small: {blocks} blocks of {} take about {needed} s",
        layers.join(", ")
    )]
    Budget {
        /// As written.
        budget: String,
        /// Blocks that are made at least.
        blocks: u32,
        /// Names of the layers.
        layers: Vec<String>,
        /// What they take, s.
        needed: u64,
    },
    /// No layer other than the baseline could be set up.
    #[error("no layer to compare with `{baseline}` could be set up: {reasons}")]
    NoLayers {
        /// The baseline's name.
        baseline: String,
        /// Each layer with its reason.
        reasons: String,
        /// A command or an option that may help.
        hint: Option<String>,
    },
    /// The disk became full during a trial.
    #[error("the disk of {dir} became full during a trial: {message}", dir = dir.display())]
    DiskFull {
        /// The directory.
        dir: PathBuf,
        /// The probe's error.
        message: String,
        /// The run, which can be resumed.
        run: String,
        /// How commands name its store.
        store: StoreOption,
    },
    /// Packaged files could not be written.
    #[error("packaged files in {dir}: {source}", dir = dir.display())]
    Packaged {
        /// Their directory.
        dir: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The user asked a second time to stop.
    #[error("run {run} was cut off")]
    CutOff {
        /// The run, which can be resumed.
        run: String,
        /// How commands name its store.
        store: StoreOption,
    },
    /// This machine lacks programs that a point starts.
    #[error("`{point}`: {why}")]
    Programs {
        /// The point's label.
        point: String,
        /// The missing programs, and where they were searched for.
        why: String,
        /// How to install them.
        hint: Option<String>,
    },
    /// The run is finished and cannot be resumed.
    #[error("run {run} is finished: there is nothing to resume")]
    Finished {
        /// The run.
        run: String,
        /// How commands name its store.
        store: StoreOption,
    },
    /// The run was started on another machine, so its two parts could not be compared.
    #[error("run {run} was begun on another machine: {difference}")]
    OtherMachine {
        /// The run.
        run: String,
        /// How commands name its store.
        store: StoreOption,
        /// What differs.
        difference: String,
    },
    /// A stored run names something that this version of layermark does not have.
    #[error("run {run} cannot be resumed: {why}")]
    CannotResume {
        /// The run.
        run: String,
        /// How commands name its store.
        store: StoreOption,
        /// The reason.
        why: String,
    },
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StoreError),
}

impl LabError {
    /// What the user can do about it, with a command where one helps.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Plan(_) => Some("keys and their meaning: layermark schema plan".into()),
            Self::Point(e) => e.hint.clone(),
            Self::UnknownWorkload { known, .. } => Some(format!("workloads: {known}")),
            Self::DuplicatePoint { .. } => Some("remove one of them from the plan".into()),
            Self::Confirm { name, known } => {
                let near = layermark_model::nearest(name, known.iter().map(String::as_str));
                let near = near.or(known.first().map(String::as_str)).unwrap_or_default();
                Some(format!("name a point or a `label` of [[work]], such as `{near}`"))
            }
            Self::TwoEnds { workload, .. } => Some(format!(
                "measure it on one host: layermark {workload} --help"
            )),
            Self::Gate(e) => Some(e.hint()),
            Self::NoValue { names } => {
                let all: Vec<String> = names.iter().map(|n| format!("--env {n}=VALUE")).collect();
                let name = names.first().map_or("", String::as_str);
                Some(format!(
                    "add {}, or set it for layermark itself: {name}=VALUE layermark ...",
                    all.join(" ")
                ))
            }
            Self::TwoValues { name } => Some(format!(
                "one of the commands may set it itself: command = \"env {name}=VALUE PROGRAM\""
            )),
            Self::NoVariable { name } => {
                Some(format!("leave it out, or write it in the plan: env = \"{name}\""))
            }
            Self::PathOfOneEnd { path, .. } => {
                let (near, far) = path.ends();
                Some(format!(
                    "name one layer: -l {far}; a path is for workloads of a network. If it is one directory, \
                     end its name with a slash: {near}..{far}/"
                ))
            }
            Self::PassedBy {
                other: Some(other), ..
            } => Some(format!("this layer with a network of its own: -l {other}")),
            Self::PassedBy { layer, .. } => Some(format!(
                "layers with a network: -l netns, -l vm:nic=virtio-net; ports that a container publishes: layermark http \
                 URL1 URL2; files in it: layermark file -l {layer}"
            )),
            Self::OneSide { .. } => Some(
                "layers whose directory this host has, too: -l bind, -l fuse, -l fuse:bindfs, -l sshfs, -l rclone, \
                 -l container:podman,at=volume, -l vm:share=virtiofs"
                    .into(),
            ),
            Self::DuplicateLayer(layer) => Some(format!(
                "name it once; the control measures the baseline a second time: remove one `-l {layer}`"
            )),
            Self::SameName { name, layers } => {
                let label = format!("{LABEL}={name}");
                let layer = layers.iter().rev().find(|l| l.contains(&label))?;
                let other = layer.replacen(&label, &format!("{label}-2"), 1);
                Some(format!("give one of them another label: -l '{other}'"))
            }
            Self::BaselineTwice { label, .. } => {
                Some(format!("name it by its label: --baseline '{label}'"))
            }
            Self::Layer(e) => e.hint(),
            Self::Dir { hint, .. } => Some(hint.clone()),
            Self::Tmpfs { .. } => {
                Some("name a directory on the disk with --dir, or say --allow-tmpfs if memory is what you mean".into())
            }
            Self::Space { .. } => {
                Some("name a larger disk with --dir, or make the files smaller: --scale 0.1".into())
            }
            Self::Budget { needed, .. } => Some(format!(
                "give it --budget {needed}s, or let it leave layers out: --drop"
            )),
            Self::Baseline { hint, .. }
            | Self::NoLayers { hint, .. }
            | Self::Programs { hint, .. } => hint.clone(),
            Self::DiskFull { run, store, .. } => Some(format!(
                "make room, then continue: layermark run --resume {run}{store}; \
                 what was measured: layermark report {run}{store}"
            )),
            Self::CutOff { run, store } => {
                Some(format!("continue: layermark run --resume {run}{store}"))
            }
            Self::Finished { run, store } => Some(format!(
                "see it: layermark report {run}{store}; give it more time, if its budget has ended it: \
                 layermark run --resume {run}{store} --budget TIME; make it again: layermark run --replay {run}{store}"
            )),
            Self::OtherMachine { run, store, .. } | Self::CannotResume { run, store, .. } => Some(format!(
                "start again with the same plan: layermark run --replay {run}{store}"
            )),
            Self::Packaged { .. } => {
                Some("see the space, the inodes and the mount: df -h . && df -i .".into())
            }
            Self::Store(e) => e.hint(),
        }
    }

    /// Exit code. 1: failed; 2: usage; 3: a layer could not be set up or a program is missing; 4:
    /// the result would not be trustworthy.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Plan(_)
            | Self::Point(_)
            | Self::UnknownWorkload { .. }
            | Self::DuplicatePoint { .. }
            | Self::Confirm { .. }
            | Self::TwoEnds { .. }
            | Self::Gate(_)
            | Self::NoValue { .. }
            | Self::TwoValues { .. }
            | Self::NoVariable { .. }
            | Self::PathOfOneEnd { .. }
            | Self::PassedBy { .. }
            | Self::OneSide { .. }
            | Self::DuplicateLayer(_)
            | Self::SameName { .. }
            | Self::BaselineTwice { .. }
            | Self::Dir { .. }
            | Self::Tmpfs { .. }
            | Self::Space { .. }
            | Self::Budget { .. }
            | Self::Finished { .. }
            | Self::CannotResume { .. } => 2,
            Self::Store(e) if e.is_usage() => 2,
            Self::Layer(e) if e.is_usage() => 2,
            Self::Layer(_)
            | Self::Baseline { .. }
            | Self::NoLayers { .. }
            | Self::Programs { .. } => 3,
            Self::OtherMachine { .. } => 4,
            Self::DiskFull { .. }
            | Self::Packaged { .. }
            | Self::CutOff { .. }
            | Self::Store(_) => 1,
        }
    }
}

/// Bytes for a person, to two significant places.
fn size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    UNITS
        .iter()
        .find(|(_, shift)| bytes >= 10 << shift)
        .map_or_else(
            || format_size(bytes),
            |(unit, shift)| format!("{}{unit}", bytes >> shift),
        )
}
