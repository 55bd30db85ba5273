//! What sequences of operations lost in power cuts.

use crate::{
    number::{count, thousands},
    statements::sequences::{Example, OpenSequences, SequenceAnswer},
    types::SequenceSample,
    words::{Names, Text, Words, captions, text},
};

/// Which sequences were asked for, and what the columns of their table are.
pub fn about_sums(sample: Option<&SequenceSample>, seed: u64) -> Text {
    let about = captions::SEQUENCE_SUMS.about;
    match sample {
        Some(sample) => text!("{} {about}", asked(sample, seed)),
        None => about.into(),
    }
}

fn asked(sample: &SequenceSample, seed: u64) -> Text {
    let one = thousands(sample.of_one as f64);
    if sample.of_two == 0 {
        return text!("Asked for: all {one} sequences of one operation.");
    }
    let [two, all] = [sample.of_two, sample.all_of_two].map(|n| thousands(n as f64));
    text!(
        "Asked for: all {one} sequences of one operation, and a sample of {two} of {all} of two, drawn from seed {seed}."
    )
}

impl Words for SequenceAnswer<'_> {
    fn words(&self, names: &Names) -> Text {
        let layer = Text::code(self.layer);
        let of = count(self.sequences as usize, "sequence");
        let cuts = count(self.cuts as usize, "cut");
        let mut parts = Vec::new();
        if let (true, Some(example)) = (self.posix > 0, self.smallest) {
            parts.push(text!(
                "{layer} loses what POSIX or fsync(2) promises after {} of {of} of operations ({cuts}), such as {}",
                self.posix,
                example.words(names)
            ));
        } else if self.open.is_none() {
            parts.push(text!(
                "{layer} keeps what POSIX or fsync(2) promises after each of {of} of operations ({cuts})"
            ));
        }
        if let (true, Some(example)) = (self.beyond > 0, self.smallest_beyond) {
            let of = match (parts.is_empty(), self.posix) {
                (true, _) => text!("{layer}: after {} of {of}", self.beyond),
                (false, 0) => text!("after {} of them", self.beyond),
                (false, _) => text!("after {} more", self.beyond),
            };
            parts.push(text!(
                "{of} what POSIX and fsync(2) do not promise, and ext4, XFS and btrfs keep, is lost, such as {}",
                example.words(names)
            ));
        }
        if let Some(open) = &self.open {
            let why = open.words(names);
            parts.push(match (parts.is_empty(), open) {
                (_, OpenSequences::IsHonest) => why,
                (true, _) => {
                    text!("what {layer} keeps of sequences of operations is not proved: {why}")
                }
                // What is lost beyond POSIX is seen.
                (false, _) if self.posix == 0 => {
                    text!("whether it keeps what POSIX or fsync(2) promises is not proved: {why}")
                }
                (false, _) => text!("that is not proved: {why}"),
            });
        }
        Text::joined(parts, "; ")
    }
}

impl Words for Example<'_> {
    fn words(&self, _: &Names) -> Text {
        text!(
            "{}: {} is {} and not {}",
            Text::code(self.sequence),
            Text::code(&self.thing.path),
            Text::code(&self.thing.found),
            Text::code(&self.thing.expected)
        )
    }
}

impl Words for OpenSequences<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::NotCut(why) => text!("{why}"),
            Self::None(None) => "the run was stopped before a cut".into(),
            Self::None(Some(why)) => text!("no sequence was looked at after a cut ({why})"),
            Self::Partly(n, why, more) => {
                let cuts = count(*n as usize, "cut");
                let more = more.map(|(n, why)| text!("; {}", unjudged(n, why)));
                let more = more.unwrap_or_default();
                text!("after {cuts} nobody could look ({why}){more}")
            }
            Self::Unjudged(n, why) => unjudged(*n, why),
            Self::Unfinished(left, all) => {
                let all = count(*all as usize, "sequence");
                text!("the run ended before all cuts of {left} of {all}")
            }
            Self::LiarLostNothing(liar) => text!(
                "nothing that POSIX or fsync(2) promises was lost in {} either, which is known to lie",
                Text::code(liar)
            ),
            Self::NoLiar => "no power was cut in a layer that is known to lie".into(),
            Self::NoHonest => "no power was cut in a layer that is known to be honest".into(),
            Self::HonestLost(honest) => text!(
                "{} lost what POSIX or fsync(2) promises as well, and is known to be honest",
                Text::code(honest)
            ),
            Self::IsHonest => {
                "it is known to be honest, so no loss under sequences is proved of any layer".into()
            }
        }
    }
}

fn unjudged(n: u64, why: &str) -> Text {
    let are = if n == 1 { "is" } else { "are" };
    let cuts = count(n as usize, "cut");
    text!("{cuts} {are} not judged, because of an error that may be this machine's ({why})")
}

#[cfg(test)]
mod tests {
    use layermark_model::witness::{SequenceCut, WitnessControl};
    use layermark_testkit::sample::unseen;

    use super::asked;
    use crate::{
        statements::sequences::{
            answers,
            tests::{BEYOND, POSIX, cut},
        },
        types::SequenceSample,
        words::said,
    };

    fn told(fuse: SequenceCut) -> String {
        let native = cut("native", Some(WitnessControl::Honest), &[]);
        let liar = cut("overlay:volatile", Some(WitnessControl::Liar), &[POSIX]);
        let all = [native, fuse, liar];
        let answers = answers(&all);
        said(answers.iter().find(|a| a.layer == "fuse").unwrap())
    }

    /// How many there are in all was only in the handbook.
    #[test]
    fn a_sample_is_said_to_be_one() {
        let sample = |of_two| SequenceSample {
            of_one: 179,
            of_two,
            all_of_two: 39_908,
        };
        assert_eq!(
            asked(&sample(200), 7).to_string(),
            "Asked for: all 179 sequences of one operation, and a sample of 200 of 39,908 of two, drawn from seed 7."
        );
        assert_eq!(
            asked(&sample(0), 7).to_string(),
            "Asked for: all 179 sequences of one operation."
        );
    }

    #[test]
    fn a_loss_has_its_promise_and_its_smallest_sequence() {
        assert_eq!(
            told(cut("fuse", None, &[POSIX, BEYOND])),
            "`fuse` loses what POSIX or fsync(2) promises after 1 of 200 sequences of operations (800 cuts), such as `create a/g; \
             fsync a`: `a/g` is `absent` and not `an empty file`; after 1 more what POSIX and fsync(2) do not promise, and \
             ext4, XFS and btrfs keep, is lost, such as `create a/g; syncfs`: `a/g` is `absent` and not `an empty file`"
        );
        assert_eq!(
            told(cut("fuse", None, &[])),
            "`fuse` keeps what POSIX or fsync(2) promises after each of 200 sequences of operations (800 cuts)"
        );
        let beyond = told(cut("fuse", None, &[BEYOND]));
        assert!(
            beyond.starts_with("`fuse` keeps what POSIX or fsync(2) promises after each"),
            "{beyond}"
        );
        assert!(
            beyond.contains("; after 1 of them what POSIX and fsync(2) do not promise"),
            "{beyond}"
        );
        let partly = SequenceCut {
            unseen: unseen((3, "mount: broken"), (0, "")),
            ..cut("fuse", None, &[])
        };
        assert_eq!(
            told(partly),
            "what `fuse` keeps of sequences of operations is not proved: after 3 cuts nobody could look (mount: broken)"
        );
        let both = SequenceCut {
            unseen: unseen((3, "mount: broken"), (2, "no loop device")),
            ..cut("fuse", None, &[])
        };
        let told_of_both = told(both);
        assert!(
            told_of_both.contains("nobody could look (mount: broken); 2 cuts are not judged"),
            "{told_of_both}"
        );
        let unjudged = SequenceCut {
            unseen: unseen((0, ""), (1, "no loop device")),
            ..cut("fuse", None, &[])
        };
        assert_eq!(
            told(unjudged),
            "what `fuse` keeps of sequences of operations is not proved: 1 cut is not judged, because of an error that \
             may be this machine's (no loop device)"
        );
        let stopped = SequenceCut {
            sequences: 103,
            unfinished: 68,
            ..cut("fuse", None, &[])
        };
        assert_eq!(
            told(stopped),
            "what `fuse` keeps of sequences of operations is not proved: the run ended before all cuts of 68 of 171 \
             sequences"
        );
        let partly_beyond = told(SequenceCut {
            unfinished: 68,
            ..cut("fuse", None, &[BEYOND])
        });
        assert!(
            partly_beyond.contains(
                "; whether it keeps what POSIX or fsync(2) promises is not proved: the run"
            ),
            "{partly_beyond}"
        );
    }

    /// It said that nothing was proved of the control because the control had lost something as well.
    #[test]
    fn controls_that_came_out_wrong_are_told_as_such() {
        let liar = cut("overlay:volatile", Some(WitnessControl::Liar), &[BEYOND]);
        let honest = cut("native", Some(WitnessControl::Honest), &[POSIX]);
        let all = [honest, cut("fuse", None, &[POSIX]), liar.clone()];
        let all = answers(&all);
        let of = |layer| said(all.iter().find(|a| a.layer == layer).unwrap());
        let (native, fuse) = (of("native"), of("fuse"));
        assert!(
            native.ends_with(
                "`an empty file`; it is known to be honest, so no loss under sequences is proved of any layer"
            ),
            "{native}"
        );
        assert!(
            fuse.ends_with(
                "; that is not proved: `native` lost what POSIX or fsync(2) promises as well, and is known to be honest"
            ),
            "{fuse}"
        );
        let kept = [
            cut("native", Some(WitnessControl::Honest), &[]),
            cut("fuse", None, &[]),
            liar,
        ];
        let kept = answers(&kept);
        let fuse = said(kept.iter().find(|a| a.layer == "fuse").unwrap());
        assert!(
            fuse.ends_with(
                ": nothing that POSIX or fsync(2) promises was lost in `overlay:volatile` either, which is known to lie"
            ),
            "{fuse}"
        );
    }
}
