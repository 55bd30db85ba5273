//! What studies say: their answers and claims, and the titles, heads and cells of their tables.

use layermark_model::{StudyId, flags};

use crate::{
    number::{self, count},
    statements::studies::{ByClaim, ClaimSides, CountedClaims},
    words::{Names, Text, Words, lists::layers, text},
};

pub mod buffer_size;
pub mod declared;
pub mod fileio_appvirt;
pub mod iozone_vm;
pub mod launch_share;
pub mod virtual_io;

/// A claim that is a statement.
pub trait Claimed: Words {
    /// The claim in few words, without the layer and its figures.
    fn claim(&self, names: &Names) -> Text;
}

/// What a study is about, in a few words.
pub fn title(of: StudyId) -> &'static str {
    match of {
        StudyId::BufferSize => "buffer size for read and write",
        StudyId::FileioAppvirt => "file I/O of virtualised applications",
        StudyId::IozoneVm => "file systems of development machines",
        StudyId::LaunchShare => "launch time from disks, images and shares",
        StudyId::VirtualIoStack => "emulated against paravirtual I/O",
    }
}

/// The heading of its section.
pub fn heading(of: StudyId) -> Text {
    text!("Study: {}", title(of))
}

/// What its section shows.
pub fn about(of: StudyId, names: &Names) -> Text {
    let natively = names.natively();
    match of {
        StudyId::BufferSize => "One file, written and then read record by record with write() and read(). Wall time and CPU time of the program for each record size. The study chose 1024 bytes by eye.".into(),
        StudyId::FileioAppvirt => text!(
            "One file written and read from start to end, {natively} and through each layer. Seconds: mean and range of the repeats. The report's own rule decides whether a layer differs from {}.",
            names.baseline()
        ),
        StudyId::IozoneVm => text!(
            "iozone's tests {natively} and through each layer. Throughput is in KB/s of 1024 bytes, as in iozone. Files were read just after they had been written or read, so reads come from memory if the layer allows it."
        ),
        StudyId::LaunchShare => "Programs launched from each layer until they are ready: mean, range, and ratio to the first layer in the same repeats. Layers on an emulated CPU are compared with each other.".into(),
        StudyId::VirtualIoStack => "Throughput of the same work natively, through emulated hardware and through paravirtual devices: more is better. Guests on an emulated CPU (TCG) are compared with each other. The figures do not apply to KVM.".into(),
    }
}

/// The heading of a section of a plan's own claims, and what it shows.
pub const CLAIMS: [&str; 2] = [
    "Claims",
    "What the plan claims of the layers, and whether it holds here.",
];

/// Where a claim was published.
pub fn source(of: &str) -> Text {
    text!("Source: {of}")
}

impl Words for ByClaim<'_> {
    fn words(&self, names: &Names) -> Text {
        Text::joined(self.0.iter().map(|claim| claim.words(names)), "; ")
    }
}

/// `claim: yes in A and B, no in C`.
impl Words for ClaimSides<'_> {
    fn words(&self, _: &Names) -> Text {
        let of = |all: &[&str], word: &str| {
            (!all.is_empty()).then(|| text!("{word} in {}", layers(all)))
        };
        let sides = [of(&self.yes, "yes"), of(&self.no, "no")];
        let sides = Text::joined(sides.into_iter().flatten(), ", ");
        text!("{}: {sides}", self.claim)
    }
}

impl Words for CountedClaims {
    fn words(&self, _: &Names) -> Text {
        let Self { yes, no, open } = self;
        let claims = count(yes + no + open, "claim");
        text!("of {claims} of the study, {yes} hold here, {no} do not, {open} are not decided")
    }
}

/// A text in which each name of a layer on an emulated CPU has a remark.
pub fn marked(of: Text, emulated: &[&str]) -> Text {
    let remark = text!(" ({})", flags::EMULATED_CPU);
    emulated
        .iter()
        .fold(of, |of, name| of.remarked(name, &remark))
}

/// A layer's name as a heading of numbers.
pub fn layer_head(name: &str, is_emulated: bool) -> Text {
    if is_emulated {
        text!("{name} ({})", flags::EMULATED_CPU)
    } else {
        name.into()
    }
}

/// `1.20x in the mean (1.02 to 3.40)`; the mean is the geometric one.
fn spread(mean: f64, ends: [f64; 2]) -> Text {
    let (mean, ends) = (number::ratio(mean), number::ratio_span(ends));
    text!("{mean}x in the mean ({ends})")
}

fn us(seconds: f64) -> String {
    number::time(seconds * 1e6)
}
