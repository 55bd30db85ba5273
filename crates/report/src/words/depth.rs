//! Where a deeper queue stops paying.

use crate::{
    number::{percent, sig3},
    statements::depth::{Bend, DepthBend},
    types::DepthPoint,
    words::{Names, Text, Words, text},
};

impl Words for DepthBend<'_> {
    fn words(&self, names: &Names) -> Text {
        let (bend, agree, blocks) = (self.bend.words(names), self.agree, self.blocks);
        text!("{bend} (in {agree} of {blocks} repeats)")
    }
}

impl Words for Bend<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Beyond(last) => text!(
                "no knee up to queue depth {}: IOPS still grow faster than the response time",
                last.iodepth
            ),
            Self::At {
                knee,
                is_least,
                next,
                last,
            } => {
                let least = if *is_least {
                    ", the least that was measured"
                } else {
                    ""
                };
                let at = |point: &DepthPoint| growth(knee, point);
                let end = last.map(|last| text!("; {}", at(last)));
                text!(
                    "the knee is at queue depth {}{least}: {}{}",
                    knee.iodepth,
                    at(next),
                    end.unwrap_or_default()
                )
            }
        }
    }
}

/// The title of response times with intervals of this level.
pub fn percentiles(what: &str, level: f64) -> Text {
    text!("{what}: response time with {} intervals", percent(level))
}

/// `at 8 IOPS are 3 % more and a response takes 4.1 times as long`.
fn growth(from: &DepthPoint, to: &DepthPoint) -> Text {
    let more = (to.iops / from.iops - 1.0) * 100.0;
    let longer = sig3(to.response_ms / from.response_ms);
    let word = if more < 0.0 { "fewer" } else { "more" };
    text!(
        "at {} IOPS are {:.0} % {word} and a response takes {longer} times as long",
        to.iodepth,
        more.abs()
    )
}
