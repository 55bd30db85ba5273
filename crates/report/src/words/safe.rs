//! Whether a directory can be relied on.

use crate::{
    number::{self, count},
    statements::safe::{SafeAdvice, SafeBecause, SafeSecond},
    words::{
        Names, Text, Words,
        commands::{self, quote},
        text,
    },
};

impl Words for SafeBecause<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::NotMeasured => "it was not measured".into(),
            Self::Lacks(error) => text!("{}", layermark_model::brief(error)),
            Self::Failed(error) => text!("a measurement failed: {}", layermark_model::brief(error)),
            Self::Untrusted(why) => text!("the measurement is not trusted: {why}"),
            Self::Refused(refused, tried, second) => text!(
                "{refused} of {} were refused to {}",
                count(*tried as usize, "lock"),
                second.words(names)
            ),
            Self::Taken(taken, tried, second) => text!(
                "{taken} of {} were taken by {} while they were held",
                count(*tried as usize, "lock"),
                second.words(names)
            ),
            Self::Seen(longest_us, second) => text!(
                "each change was seen by {}, the slowest within {}",
                second.words(names),
                number::time(*longest_us)
            ),
            Self::Unseen(unseen, second) => {
                let labels: Vec<Text> = unseen.labels.iter().map(|l| Text::code(l)).collect();
                let within = unseen.waited.map(|waited| text!(" within {waited}"));
                text!(
                    "{} of {} {} not seen by {}{}: {}",
                    unseen.absent,
                    count(unseen.all as usize, "change"),
                    number::verb(unseen.absent as usize, "was", "were"),
                    second.words(names),
                    within.unwrap_or_default(),
                    number::list(&labels)
                )
            }
            Self::OtherMachines(fs) => text!(
                "two processes of this machine agree, and other machines may have the files too ({fs})"
            ),
            Self::Flushes(said) => (*said).into(),
            Self::Drops(how) => text!("{how}"),
            Self::InMemory => "the data lies in memory".into(),
            Self::Unflushed => "fsync does not reach the device".into(),
            Self::FlushedLate => {
                "fsync reaches the device only after it was answered, so a cut in between loses the name".into()
            }
            Self::Uncut => "only a power cut shows it, and none was made".into(),
        }
    }
}

impl Words for SafeSecond<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Alone(fs) => text!(
                "a second process (this kernel alone mounts the {fs}; exports of it were not looked for)"
            ),
            Self::Process => "a second process of this machine".into(),
            Self::Client => "the second client".into(),
        }
    }
}

impl Words for SafeAdvice<'_> {
    fn words(&self, _: &Names) -> Text {
        let again =
            |dir: &str, flags: &str| Text::code(&format!("layermark safe {} {flags}", quote(dir)));
        match self {
            Self::OtherPath(dir) => text!(
                "name a second mount of it, or its directory on the server: {}",
                again(dir, "--other OTHER")
            ),
            Self::Below(dir) => text!(
                "name a directory on the disk that has the data: {}",
                again(dir, "--below DISK")
            ),
            Self::Quiet(dir) => text!(
                "ask again when the disk is quiet: {}",
                again(dir, "--only fsync")
            ),
            Self::CutByHand(dir) => text!(
                "cut the power by hand while {} runs, its log being on another machine",
                Text::code(&format!("layermark durability record --to LOG {}", quote(dir)))
            ),
            Self::LockElsewhere => {
                "keep files that several programs lock, such as databases and mail boxes, on another file system".into()
            }
            Self::MapElsewhere => {
                "keep databases that map their files elsewhere; SQLite works without shared mappings in journal_mode=DELETE".into()
            }
            Self::SurviveElsewhere => {
                "keep what must survive a power cut on another file system, or mount this one so that it flushes".into()
            }
            Self::WaitForChanges => {
                "let programs that share files here exchange them by another way, or mount it with a shorter cache".into()
            }
            Self::SeeRun(run, store) => {
                let run = store.find(run);
                text!(
                    "see what happened: {}",
                    Text::code(&commands::report(&run, "--full"))
                )
            }
        }
    }
}
