//! What power cuts show.

use layermark_model::witness::{ClosedFiles, WitnessFinding};

use crate::{
    number::{count, list},
    statements::power_cuts::{
        ControlCut, ControlFault, ControlOpen, Controls, CutEvidence, Lie, Loss, PowerCuts,
    },
    words::{Names, Text, Words, captions, text},
};

/// `12:00:03.413 UTC`.
pub fn time(ms: i64) -> Text {
    let at = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
    text!("{}", at.strftime("%H:%M:%S.%3f UTC"))
}

/// How it was done: with a container, its files were looked at from the host.
pub fn about_cuts(with_container: bool) -> Text {
    let container = with_container.then(|| captions::CUT_CONTAINER.into());
    Text::joined(
        [captions::CUTS.about.into()].into_iter().chain(container),
        " ",
    )
}

/// Flushes of a layer, from the writer to the disk.
pub fn storeys(layer: &str) -> Text {
    text!("{}: flushes at each storey", Text::code(layer))
}

/// Records around the first one that a writer lost in a layer.
pub fn first_lost(layer: &str, writer: &str) -> Text {
    text!("{}: the first lost record of `{writer}`", Text::code(layer))
}

/// What was found of a record.
pub fn lost_record(of: &WitnessFinding) -> Text {
    text!("Record {}: {}.", of.sequence, of.text)
}

impl Words for PowerCuts<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::Unbelievable(why) => why.unbelievable(names),
            Self::Lost {
                first,
                more_lies,
                more_closed,
                controls,
            } => {
                let lies = others(*more_lies, ["lies", "lie"]);
                let closed = others(*more_closed, ["loses closed files", "lose closed files"]);
                text!(
                    "{}{lies}{closed}. {}",
                    first.words(names),
                    controls.words(names)
                )
            }
        }
    }
}

fn others(n: usize, [one, many]: [&str; 2]) -> Text {
    match n {
        0 => Text::default(),
        1 => text!("; 1 other layer {one} as well"),
        n => text!("; {n} other layers {many} as well"),
    }
}

impl Words for Loss<'_> {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::Lie(lie) => lie.words(names),
            Self::Closed(layer, closed) => text!(
                "{} loses what was closed just before a clean unmount: {} of {} ({})",
                Text::code(layer),
                closed.lost.unwrap_or(0),
                count(closed.files as usize, "file"),
                closed.why.as_deref().unwrap_or_default()
            ),
        }
    }
}

impl Words for Lie<'_> {
    fn words(&self, _: &Names) -> Text {
        text!("{} lies: {}", Text::code(self.layer), self.loss())
    }
}

impl Lie<'_> {
    /// The first lost record and the count of cuts, without the layer's name.
    pub fn loss(&self) -> Text {
        let flushes = self.flushes.map(|n| {
            let records = count(self.records as usize, "record");
            text!("; {records} acknowledged, {} below", flushed(n))
        });
        let only = self.only.as_ref().map(|writers| {
            let writers: Vec<Text> = writers.iter().map(|w| Text::code(w)).collect();
            let writers = list(&writers);
            text!("; only writers that sync a directory lost data ({writers})")
        });
        let finding = &self.first.finding;
        let of = format!(" of `{}`", self.worst.writer);
        text!(
            "{}, is {} after a power cut ({}); data was lost in {} of {}{}{}",
            finding.promised(&of, &time(self.first.at_ms).to_string()),
            finding.outcome.state(),
            finding.text,
            self.worst.losing,
            count(self.worst.cuts as usize, "cut"),
            flushes.unwrap_or_default(),
            only.unwrap_or_default()
        )
    }
}

fn flushed(n: u64) -> Text {
    match n {
        1 => "1 flush".into(),
        n => text!("{n} flushes"),
    }
}

impl Words for CutEvidence<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Closed(files) => closed(files),
            Self::LostWhenKilled(n) => text!("{n} lost when only the guest was killed"),
            Self::NotSetUpWhenKilled(why) => {
                text!("when only the guest was killed it could not be set up again ({why})")
            }
            Self::Refuses(call) => {
                text!("it refuses {call}, so it promises no new name and no rename")
            }
        }
    }
}

fn closed(closed: &ClosedFiles) -> Text {
    let files = count(closed.files as usize, "file");
    let why = closed.why.as_deref().unwrap_or_default();
    match closed.lost {
        None => text!("what a clean unmount leaves is not known ({why})"),
        Some(0) if closed.files == 1 => {
            "1 file that was closed just before a clean unmount is there".into()
        }
        Some(0) => text!("{files} that were closed just before a clean unmount are there"),
        Some(_) if closed.files == 1 => {
            text!("the file that was closed just before a clean unmount is lost ({why})")
        }
        Some(n) => {
            text!("{n} of {files} that were closed just before a clean unmount are lost ({why})")
        }
    }
}

/// One sentence, without a full stop.
impl Words for Controls<'_> {
    fn words(&self, _: &Names) -> Text {
        let honest = control("honest", self.honest.as_ref());
        let lying = control("lying", self.lying.as_ref());
        text!("Controls: {honest}; {lying}")
    }
}

fn control(what: &str, cut: Option<&ControlCut>) -> Text {
    match cut {
        None => text!("no {what} one was cut"),
        Some(cut) => one_control(what, cut),
    }
}

/// The layer that is known to lie.
pub fn lying_control(cut: &ControlCut) -> Text {
    one_control("lying", cut)
}

fn one_control(what: &str, cut: &ControlCut) -> Text {
    let layer = Text::code(cut.layer);
    match cut.open {
        Some(ControlOpen::Uncut(None)) => text!("{layer} ({what}) was not cut"),
        Some(ControlOpen::Uncut(Some(why))) => text!("{layer} ({what}) was not cut: {why}"),
        Some(ControlOpen::Unjudged(n, why)) => {
            let are = if n == 1 { "is" } else { "are" };
            text!("{layer} ({what}) has no cut that is judged: {n} {are} not ({why})")
        }
        Some(ControlOpen::Unrecovered(n, why)) => {
            let cuts = count(n as usize, "cut");
            text!("{layer} ({what}) could not be set up again after {cuts} ({why})")
        }
        None => text!(
            "{layer} ({what}) lost data in {} of {}",
            cut.losing,
            count(cut.cuts as usize, "cut")
        ),
    }
}

impl ControlFault<'_> {
    /// What cannot be believed because of it. Writers and sequences have controls of their own.
    pub fn unbelievable(&self, names: &Names) -> Text {
        let what = match self {
            Self::LiarNotCaught(_) | Self::HonestLost(_) => "no verdict of the power cuts",
            Self::LiarKeptSequences(_) | Self::HonestLostSequence(_) => {
                "no verdict on sequences of operations"
            }
        };
        text!("{what} can be believed: {}", self.words(names))
    }
}

impl Words for ControlFault<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::LiarNotCaught(layer) => {
                text!("{} is known to lie and was not caught", Text::code(layer))
            }
            Self::HonestLost(layer) => {
                text!("{} is known to be honest and lost data", Text::code(layer))
            }
            Self::LiarKeptSequences(layer) => text!(
                "{} is known to lie and lost nothing that POSIX or fsync(2) promises after sequences of operations",
                Text::code(layer)
            ),
            Self::HonestLostSequence(layer) => text!(
                "{} is known to be honest and lost what POSIX or fsync(2) promises after a sequence of operations",
                Text::code(layer)
            ),
        }
    }
}
