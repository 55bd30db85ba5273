//! Causes of a difference, and reasons not to trust a number.

use crate::{
    number,
    types::{Cause, Distrust, InTrials, MountPlace, Setting, Sides, Unproved},
    words::{Names, Text, Words, limits, text, waiting},
};

impl Words for Cause {
    fn words(&self, names: &Names) -> Text {
        let (baseline, natively) = (names.baseline(), names.natively());
        match self {
            Self::CopyUp => {
                "copy-up, the whole file is copied before its first byte changes".into()
            }
            Self::NetworkFileSystem { fs, source } => {
                text!("its data lies on a server ({fs} from {source})")
            }
            Self::KernelWorkers(n) => {
                let threads = number::count(*n as usize, "kernel thread");
                text!(
                    "io_uring hands its requests to {threads} (iou-wrk), {natively} to none; --engine pread needs none"
                )
            }
            Self::EmulatedCpu => "emulated CPU, which makes every instruction slower".into(),
            Self::UserSpace => "each call goes through a program in user space".into(),
            Self::HelperCpu(us) => {
                text!(
                    "that program uses {} of CPU an operation",
                    number::time(*us)
                )
            }
            Self::SeccompFilters(sides) => seccomp_filters(*sides, &natively),
            Self::CpuLimit(limit, times) => {
                let may = limits::of_layer(limit);
                let times = number::count(*times as usize, "time");
                text!("{may}, and was stopped {times} in its turns")
            }
            Self::Setting(setting) => setting.words(names),
            Self::Memory => "its data lies in memory, not on a disk".into(),
            Self::OfBaseline(cause) => text!("in {baseline}: {}", cause.words(names)),
            Self::SkippedFlush {
                flushes,
                natively: Some(reference),
                ..
            } => text!(
                "it skips the flushes of its programs ({flushes} device flushes, {natively} {reference})"
            ),
            Self::SkippedFlush { flushes, syncs, .. } => {
                text!("it skips fsync ({flushes} device flushes for {syncs} syncs)")
            }
            Self::LateFlush => "it answers fsync before the device is flushed".into(),
            Self::SuspectedFlush(how) => {
                text!("fsync is suspected of not reaching the disk: {how}")
            }
            Self::Compression(with) => {
                text!("it compresses ({with}), so less crosses the device")
            }
            Self::OtherDevice(Sides { here, native }) => {
                let (here, there) = (here.join(" and "), native.join(" and "));
                text!("it stands on another device ({here}, {natively} {there})")
            }
            Self::OtherSource(Sides { here, native }) => {
                let (here, there) = (here.word(), native.word());
                text!("it read from {here}, {baseline} from {there}")
            }
            Self::OtherFileSystem(Sides { here, native }) => text!(
                "it is another file system ({here}, {natively} {native}); nothing else in the data explains it"
            ),
            Self::WriteBackDebt(Sides { here, native }) => {
                let (here, there) = (number::time(*here), number::time(*native));
                text!(
                    "writing what it left when the clock stopped takes {here} an operation, {natively} {there}"
                )
            }
            Self::WriteAmplification(Sides { here, native }) => {
                let (here, there) = (number::sig3(*here), number::sig3(*native));
                text!(
                    "it writes {here} bytes to its device for each byte of the application, {baseline} {there}"
                )
            }
            Self::FlushesPerSync(Sides { here, native }) => {
                let (here, there) = (number::sig3(*here), number::sig3(*native));
                text!("it flushes the device {here} times a sync, {baseline} {there}")
            }
            Self::WaitsForCpu { whole_us, waits_us } => {
                waiting::waits([*whole_us, *waits_us], true)
            }
            Self::Small(delta) => text!(
                "no reason was found for so small a difference (below {})",
                number::percent(*delta)
            ),
            Self::Unexplained => "no reason was found in the data, so do not count on it".into(),
        }
    }
}

fn seccomp_filters(Sides { here, native }: Sides<u32>, natively: &Text) -> Text {
    let filters = number::count(here as usize, "seccomp filter");
    match native {
        0 => text!("each system call passes {filters}, {natively} none"),
        n => text!("each system call passes {filters}, {natively} {n}"),
    }
}

impl Words for Setting {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::MountOption(option, at) => {
                let so = match *option {
                    "sync" => "each write waits for its device",
                    "dirsync" => "each change of a directory waits for its device",
                    "discard" => "it tells its device of each block that becomes free",
                    _ => "reading a file changes its time of access",
                };
                text!("{} is mounted `{option}`, so {so}", at.words(names))
            }
            Self::ReadAhead(Sides { here, native }) => {
                let natively = names.natively();
                text!("the kernel reads ahead {here} KiB, {natively} {native} KiB (read_ahead_kb)")
            }
            Self::Decompresses(with) => text!("what it reads has to be decompressed ({with})"),
            Self::Compresses(with) => text!("it compresses what is written ({with})"),
            Self::Encrypts(with) => text!("it encrypts its data ({with})"),
        }
    }
}

impl Words for MountPlace {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Own => "it".into(),
            Self::Below(at) => text!("{} below it", at.display()),
        }
    }
}

impl Words for Distrust {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::LayerLost => "it was found gone after a measurement".into(),
            Self::WrongData(records) => {
                let records = number::count(*records as usize, "record");
                text!("{records} came back with wrong data")
            }
            Self::UnknownPlace => "nothing is known about where it ran".into(),
            Self::UnlikePrograms(programs) => {
                text!("not all measurements ran the same programs: the hashes of {programs} differ")
            }
            Self::BaselineSkipsFlush => {
                text!("{} skips the flush, this does not", names.baseline())
            }
            Self::Cache(of) => in_trials("the cache was not as asked", *of),
            Self::CacheUnproved(of, why) => {
                let unproved = in_trials("nothing proves that the cache was cold", *of);
                text!("{unproved}: {}", why.words(names))
            }
            Self::DirectIgnored(of) => in_trials("O_DIRECT was accepted and ignored", *of),
            Self::OfBaseline(why) => text!("{}, {}", names.natively(), why.words(names)),
        }
    }
}

impl Words for Unproved {
    fn words(&self, _: &Names) -> Text {
        let why = match self {
            Self::NothingCounts => "nothing below it counts what was read",
            Self::Others => "other programs may have read from the device meanwhile",
            Self::NamesStayed => "the kernel's name caches could not be emptied",
            Self::Served => {
                "the program or machine that serves it may have answered from its memory"
            }
            Self::WithoutRoot => "without root the kernel's name caches cannot be emptied",
        };
        why.into()
    }
}

fn in_trials(what: &str, InTrials { with, all }: InTrials) -> Text {
    text!("{what} in {with} of {all} measurements")
}
