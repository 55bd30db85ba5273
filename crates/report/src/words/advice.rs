//! Advice.

use crate::{
    number::{self, list, times},
    statements::advice::{Advised, FewerOperations},
    types::{Estimate, ResultRow},
    words::{
        Names, Text, Words,
        lists::{first_of, labels, quoted},
        text,
        verdicts::within,
    },
};

/// What proves or refutes what counting cannot.
const CUT: &str = "layermark durability -l LAYER, or for a program in user space layermark durability --server 'COMMAND'";

impl Words for Advised<'_> {
    fn words(&self, names: &Names) -> Text {
        let baseline = names.baseline();
        match self {
            Self::OtherBaseline(is_directory) => {
                let (how, name) = if *is_directory {
                    ("directory", "such as a volume: --dir DIRECTORY")
                } else {
                    ("layer", "with --baseline LAYER")
                };
                text!(
                    "Compare with a {how} whose flushes reach the device, {name}. In {baseline} it is skipped here."
                )
            }
            Self::StallsHere(row) => {
                let average = row.ratio.and_then(|r| r.average).map(Estimate::from);
                text!(
                    "Plan with the average of {} at {}, {}, not with its usual time; a program that waits for one operation may meet the longest.",
                    Text::code(&row.layer),
                    quoted(&row.label),
                    average.as_ref().map(times).unwrap_or_default()
                )
            }
            Self::StallsOfBaseline(row) => text!(
                "The baseline itself, {baseline}, stalls at {}: look at its disk, and at what its programs do now and then, before a layer is judged by that average.",
                quoted(&row.label)
            ),
            Self::Locks(open) => open.advice(),
            Self::Fresher(layer, spec) => text!(
                "Do not rely on {} showing changes of the other side at once. Measure whether other options help: layermark coherence -l {spec}",
                Text::code(layer)
            ),
            Self::FewerOperations(fewer) => fewer.words(names),
            Self::Cached(layer) => text!(
                "Do not read the cold figures of {} as the disk's: this machine's memory answered. Turn direct I/O on below it, or empty that cache too.",
                Text::code(layer)
            ),
            Self::Unexplained(layer, rows, sessions) => text!(
                "Do not count on {} being faster than {baseline} at {}: nothing in the data explains it. Look again with more sessions: --sessions {sessions}.",
                Text::code(layer),
                labels(rows),
            ),
            Self::Owes(layer, bytes, seconds) => {
                let bytes = bytes.map_or_else(|| "an unknown amount".into(), number::bytes);
                let more = number::time(seconds * 1e6);
                text!(
                    "Writes to {} continue after the application has ended ({bytes} took {more} more): flush before you switch off or take a snapshot.",
                    Text::code(layer)
                )
            }
            Self::NotKnown(rows, busy) => not_known(rows, *busy),
            Self::RunAsRoot => {
                "Run as root where caches have to be cold: without it they cannot be emptied everywhere."
                    .into()
            }
            Self::KeepNothing(layers)
            | Self::KeepNothingLate(layers)
            | Self::Suspected(layers)
            | Self::FewerFlushes(layers)
            | Self::FastFlush(layers, _)
            | Self::BusyDisk(layers)
            | Self::Memory(layers)
            | Self::CopyUp(layers)
            | Self::NameTheDisk(layers) => {
                let layers: Vec<Text> = layers.iter().map(|l| Text::code(l)).collect();
                self.of_layers(&list(&layers), &baseline)
            }
        }
    }
}

impl Advised<'_> {
    /// Advice on some layers.
    fn of_layers(&self, layers: &str, baseline: &Text) -> Text {
        match self {
            Self::KeepNothing(_) => text!(
                "Keep no data in {layers} that has to survive a power cut: flushes there do not reach the device."
            ),
            Self::KeepNothingLate(_) => text!(
                "Keep no data in {layers} that has to survive a power cut: fsync there is answered before the device is flushed. Cut its power to see what it loses: {CUT}"
            ),
            Self::Suspected(_) => text!(
                "Do not rely on fsync in {layers} before it is proved: it is several times faster than the disk below can be. Count its flushes while nothing else uses the disk, and cut its power: {CUT}"
            ),
            Self::FewerFlushes(_) => text!(
                "Do not rely on fsync in {layers} before a power cut proves it: the device counts fewer flushes than the application asks for. {CUT}"
            ),
            Self::FastFlush(_, true) => text!(
                "Do not rely on fsync in {layers} before a power cut proves it: a program in user space takes longer than the disk below it, and this flushes faster than {baseline} on the same disk. {CUT}"
            ),
            Self::FastFlush(_, false) => text!(
                "Do not rely on fsync in {layers} before a power cut proves it: it is not proved, and faster than {baseline} for no reason that the data shows. {CUT}"
            ),
            Self::BusyDisk(_) => text!(
                "Measure the flushes of {layers} again when the disk is quiet: other programs flushed it, so nothing tells whose were counted."
            ),
            Self::Memory(_) => text!(
                "Do not take {layers} for a disk: data in memory is lost after a restart and takes memory from programs."
            ),
            Self::CopyUp(_) => text!(
                "Change large packaged files in {layers} rarely. Copying is cheap only where lower and upper directory are on one file system with reflinks (xfs, btrfs)."
            ),
            Self::NameTheDisk(_) => text!(
                "To prove cold reads in {layers}, name a directory on the disk that its data comes from: -l dir:PATH,below=DIRECTORY. Without it nothing tells a disk from the memory of what serves it."
            ),
            _ => Text::default(),
        }
    }
}

impl Words for FewerOperations<'_> {
    fn words(&self, _: &Names) -> Text {
        let to = match (self.adds, self.slower) {
            (1, 1) => "the one operation".to_owned(),
            (n, all) if n == all => format!("each of the {n} operations"),
            (n, all) => format!("{n} of the {all} operations"),
        };
        text!(
            "Do fewer and larger operations through {}: it adds about {} or more to {to} where it is slower.",
            Text::code(self.layer),
            number::time(self.least_us)
        )
    }
}

fn not_known(rows: &[&ResultRow], busy: bool) -> Text {
    let cells = first_of(rows, |r| {
        let how = match (r.probably, r.steady, r.margin) {
            _ if r.withheld.is_some() => r.word().into(),
            (Some(_), ..) => r.word().into(),
            (_, Some(false), _) => layermark_model::flags::UNSTEADY.into(),
            (.., Some(margin)) => within(margin),
            _ => "no interval yet".into(),
        };
        text!("{} in {} ({how})", quoted(&r.label), Text::code(&r.layer))
    });
    let more = if busy {
        "measure again when nothing else runs on this machine"
    } else {
        "give it a larger --budget, or fewer layers"
    };
    text!("Not known for certain: {cells}. To know more, {more}.")
}
