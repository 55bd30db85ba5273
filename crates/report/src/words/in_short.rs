//! One line for each layer.

use crate::{
    number::{self, count},
    statements::{
        everyday::Everyday,
        in_short::{How, InShort, Kept, ShortLine, Told},
    },
    types::{ResultRow, Verdict},
    words::{
        Names, Text, Words,
        headline::named,
        lists::{layers, quoted},
        text,
    },
};

impl Words for ShortLine<'_> {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Layer(of) => of.said(),
            Self::Open(open) => {
                let what = if open.len() == 1 {
                    "it costs"
                } else {
                    "they cost"
                };
                text!("{}: what {what} is not decided", layers(open))
            }
        }
    }
}

/// How much a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// With the times of its first operation.
    Whole,
    /// Ratios alone.
    Brief,
}

impl ShortLine<'_> {
    /// The line without times, and with the matrix's sign for "probably", for a list of many layers; `None` if it has none.
    pub fn brief(&self) -> Option<Text> {
        match self {
            Self::Layer(of) => Some(of.told(Length::Brief)),
            Self::Open(_) => None,
        }
    }
}

impl InShort<'_> {
    /// `` `fuse`: daily work 3.0x (git status: 2.1 -> 6.4 ms), database 2.1x, fsync works``.
    fn said(&self) -> Text {
        self.told(Length::Whole)
    }

    fn told(&self, length: Length) -> Text {
        // One line has room for the times of one operation.
        let told = self.told.iter().enumerate();
        let told = told.map(|(n, told)| told.said(length, n == 0));
        let open = (self.open > 0).then(|| match (self.open, self.rows.len()) {
            (open, all) if open == all => "what it costs is not decided".into(),
            (open, all) if length == Length::Brief => text!("{open} of {all} not decided"),
            (open, all) => text!("{open} of {} not decided", count(all, "operation")),
        });
        let failed = (self.failed > 0).then(|| text!("{} failed", count(self.failed, "operation")));
        let parts = told.chain(open).chain(failed).chain(self.kept.after());
        let parts = Text::joined(parts, ", ");
        let before = self.kept.before().unwrap_or_default();
        text!("{}: {before}{parts}", named(&self.name))
    }
}

impl Kept {
    /// Why a layer loses what it was given.
    pub fn loses(self) -> Option<&'static str> {
        match self {
            Self::Skipped => Some("skips fsync"),
            Self::Early => Some("answers fsync early"),
            Self::Memory => Some("in memory"),
            Self::NotAsked | Self::Yes | Self::NotProved => None,
        }
    }

    /// The mark of such a layer.
    fn before(self) -> Option<Text> {
        self.loses().map(|why| text!("! {why}; "))
    }

    fn after(self) -> Option<Text> {
        match self {
            Self::Yes => Some("fsync works".into()),
            Self::NotProved => Some("fsync not proved".into()),
            _ => None,
        }
    }
}

impl Told<'_> {
    fn said(&self, length: Length, is_first: bool) -> Text {
        let what = match self.work {
            Some(Everyday::Work) => "daily work ",
            Some(Everyday::Start) => "starting programs ",
            Some(Everyday::Database) => "database ",
            Some(Everyday::Packaged) => "packaged files ",
            None => "",
        };
        let row = match self.how {
            How::Slower(row) | How::Faster(row) => row,
            How::Same(same) if same == self.all => return text!("{what}the same"),
            How::Same(same) => return text!("{what}the same at {same} of {}", self.all),
        };
        let probably = match length {
            _ if row.verdict.is_decided() => "",
            Length::Whole => "probably ",
            Length::Brief => "~",
        };
        let usually = if row.has_stalls() { "usually " } else { "" };
        let amount = row.ratio.as_ref().map(number::amount);
        let amount = text!("{probably}{usually}{}", amount.unwrap_or_default());
        let times = from_to(row).filter(|_| length == Length::Whole);
        let label = [Some(row.label.as_str().into()), times.clone()];
        let place = Text::joined(label.into_iter().flatten(), ": ");
        let place = if is_first && length == Length::Whole {
            text!(" ({place})")
        } else {
            Text::default()
        };
        let times = times.map(|times| text!(" ({times})")).unwrap_or_default();
        let is_whole = self.known == self.all;
        let is_most = row.leaning() == Verdict::Slower && is_whole;
        match self.work {
            Some(_) if self.all == 1 => text!("{what}{amount}{place}"),
            Some(_) if is_whole => text!("{what}up to {amount}{place}"),
            Some(_) => text!("{what}{amount} in part{place}"),
            None if self.all == 1 => text!("{amount}{times}"),
            None if is_most => text!("most time lost at {}, {amount}{times}", quoted(&row.label)),
            None => text!("{amount} at {}{times}", quoted(&row.label)),
        }
    }
}

/// `2.1 -> 6.4 ms`, if the time of the baseline in the same rounds is known.
fn from_to(row: &ResultRow) -> Option<Text> {
    let is_far = row
        .ratio
        .is_some_and(|e| e.distance() >= number::MULTIPLE.ln());
    let digits = if is_far { 2 } else { 3 };
    let (from, to) = row.native_us.zip(row.op_us)?;
    Some(number::from_to(from, to, digits).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Estimate;

    /// "In part" was said of work all of which is faster.
    #[test]
    fn faster_work_is_in_part_only_where_some_is_not_decided() {
        let row = ResultRow {
            label: "commit".into(),
            verdict: Verdict::Faster,
            ratio: Some(Estimate::new(0.5, Some([0.4, 0.6]))),
            ..ResultRow::default()
        };
        let said = |known| {
            let told = Told {
                work: Some(Everyday::Database),
                how: How::Faster(&row),
                known,
                all: 3,
            };
            String::from(told.said(Length::Whole, false))
        };
        let amount = number::times(&row.ratio.expect("a ratio"));
        assert_eq!(said(3), format!("database up to {amount}"));
        assert_eq!(said(2), format!("database {amount} in part"));
    }
}
