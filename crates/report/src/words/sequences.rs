//! What sequences of operations lost in power cuts.

use crate::{
    number::count,
    statements::sequences::{Example, OpenSequences, SequenceAnswer},
    words::{Names, Text, Words, text},
};

impl Words for SequenceAnswer<'_> {
    fn words(&self, _: &Names) -> Text {
        let layer = Text::code(self.layer);
        let of = count(self.sequences as usize, "sequence");
        let cuts = count(self.cuts as usize, "cut");
        let mut parts = Vec::new();
        if let (true, Some(example)) = (self.posix > 0, self.smallest) {
            parts.push(text!(
                "{layer} loses what POSIX or fsync(2) promises after {} of {of} of operations ({cuts}), such as {}",
                self.posix,
                example.words()
            ));
        } else if self.open.is_none() {
            parts.push(text!(
                "{layer} keeps what POSIX or fsync(2) promises after each of {of} of operations ({cuts})"
            ));
        }
        if let (true, Some(example)) = (self.beyond > 0, self.smallest_beyond) {
            let of = if parts.is_empty() {
                text!("{layer}: after {} of {of}", self.beyond)
            } else {
                text!("after {} of them", self.beyond)
            };
            parts.push(text!(
                "{of} what POSIX and fsync(2) do not promise, and ext4, XFS and btrfs keep, is lost, such as {}",
                example.words()
            ));
        }
        if let Some(open) = &self.open {
            let what = if parts.is_empty() {
                text!("what {layer} keeps of sequences of operations is not proved")
            } else {
                "that is not proved".into()
            };
            parts.push(text!("{what}: {}", open.said()));
        }
        Text::joined(parts, "; ")
    }
}

impl Example<'_> {
    fn words(&self) -> Text {
        text!(
            "{}: {} is {} and not {}",
            Text::code(self.sequence),
            Text::code(&self.thing.path),
            Text::code(&self.thing.found),
            Text::code(&self.thing.expected)
        )
    }
}

impl OpenSequences<'_> {
    fn said(&self) -> Text {
        match self {
            Self::NotCut(why) => text!("{why}"),
            Self::None(None) => "the run was stopped before a cut".into(),
            Self::None(Some(why)) => text!("no sequence was looked at after a cut ({why})"),
            Self::Partly(n, why) => {
                let cuts = count(*n as usize, "cut");
                text!("after {cuts} nobody could look ({why})")
            }
            Self::LiarLostNothing(liar) => text!(
                "none was lost in {} either, which is known to lie",
                Text::code(liar)
            ),
            Self::NoLiar => "no power was cut in a layer that is known to lie".into(),
            Self::HonestLost(honest) => text!(
                "{} lost something as well, which is known to be honest",
                Text::code(honest)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use layermark_model::witness::{SequenceCut, WitnessControl};

    use crate::{
        statements::sequences::{
            answers,
            tests::{BEYOND, POSIX, cut},
        },
        words::said,
    };

    fn told(fuse: SequenceCut) -> String {
        let native = cut("native", Some(WitnessControl::Honest), &[]);
        let liar = cut("overlay:volatile", Some(WitnessControl::Liar), &[POSIX]);
        let all = [native, fuse, liar];
        let answers = answers(&all);
        said(answers.iter().find(|a| a.layer == "fuse").unwrap())
    }

    #[test]
    fn a_loss_has_its_promise_and_its_smallest_sequence() {
        assert_eq!(
            told(cut("fuse", None, &[POSIX, BEYOND])),
            "`fuse` loses what POSIX or fsync(2) promises after 1 of 200 sequences of operations (800 cuts), such as `create a/g; \
             fsync a`: `a/g` is `absent` and not `an empty file`; after 1 of them what POSIX and fsync(2) do not promise, and \
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
            unrecovered: 3,
            unrecovered_why: Some("mount: broken".into()),
            ..cut("fuse", None, &[])
        };
        assert_eq!(
            told(partly),
            "what `fuse` keeps of sequences of operations is not proved: after 3 cuts nobody could look (mount: broken)"
        );
    }
}
