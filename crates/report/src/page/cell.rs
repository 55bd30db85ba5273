//! A cell of the matrix: a result as numbers, signs and texts.

use super::{
    shade::Shade,
    sign::{Sign, SignSet},
};
use crate::{
    ResultRow, Verdict, facts::stalls, number, statements::locks::is_open, words::cell as words,
};

/// What the cells show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Time in the layer over the baseline's, or the verdict's sign.
    Ratio,
    /// Time an operation.
    Time,
    /// Throughput, or the result in its workload's unit.
    Throughput,
}

/// A ratio with its signs, in two parts: a number or a sign, and words, which a narrow column shows smaller or on
/// a line of their own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shown {
    /// `1.80x`, `~3.0x`, `=`, `0.97`.
    pub number: String,
    /// `faster`, `±5%`; may be empty.
    pub words: String,
}

impl Shown {
    fn plain(number: impl Into<String>) -> Self {
        Self {
            number: number.into(),
            words: String::new(),
        }
    }

    fn before(mut self, sign: &str) -> Self {
        self.number.insert_str(0, sign);
        self
    }

    fn after(mut self, sign: &str) -> Self {
        if self.words.is_empty() {
            self.number += sign;
        } else {
            self.words += sign;
        }
        self
    }

    /// Both parts.
    pub fn text(&self) -> String {
        match self.words.as_str() {
            "" => self.number.clone(),
            words => [self.number.as_str(), words].join(" "),
        }
    }
}

/// A result in the matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixCell<'a> {
    /// Id of the result. Absent without one.
    pub result: Option<&'a str>,
    /// The verdict, for its colour.
    pub verdict: Option<Verdict>,
    /// The shade; absent without a result.
    pub shade: Option<Shade>,
    /// Time in the layer over the baseline's.
    pub ratio: Option<f64>,
    /// The ratio without signs, `1.80x`, `3.0x faster`; may be empty.
    pub times: String,
    /// The half-width of the ratio's interval, `5%`, where it does not decide; may be empty.
    pub noise: String,
    /// Microseconds an operation.
    pub op_us: Option<f64>,
    /// The result in its unit.
    pub value: Option<f64>,
    /// The signs of the ratio.
    pub signs: SignSet,
    /// The ratio with its signs.
    pub shown: Shown,
    /// The time with its unit.
    pub time: String,
    /// The result with its unit.
    pub throughput: String,
    /// The cell in words: `slower: 1.80 times native's time, 1.75 to 1.85`.
    pub words: String,
}

impl<'a> MatrixCell<'a> {
    /// The cell of a result, or that of none. `of` names what its time is compared with.
    pub fn new(row: Option<&'a ResultRow>, of: &str) -> Self {
        let made = row.filter(|r| r.trials > 0);
        let (shown, signs) = signs(made);
        let absolute = |text: Option<String>| match made {
            Some(row) if row.not_seen() => NOT_SEEN.join(" "),
            _ => text.unwrap_or_else(|| Sign::Missing.shown().into()),
        };
        let noise = made.filter(|_| signs.has(Sign::Noisy));
        let noise = noise.and_then(|row| number::Written::in_row(row)?.noise());
        let written = row.and_then(number::Written::in_row);
        Self {
            times: written.map(|w| w.times()).unwrap_or_default(),
            result: row.map(|r| r.id.as_str()),
            verdict: row.map(|r| r.verdict),
            shade: row.map(Shade::of),
            ratio: row.and_then(|r| Some(r.ratio?.estimate)),
            noise: noise.unwrap_or_default(),
            op_us: row.and_then(|r| r.op_us),
            value: row.and_then(|r| r.value),
            signs,
            shown,
            time: absolute(made.and_then(|r| r.op_us).map(number::time)),
            throughput: absolute(made.filter(|r| r.value.is_some()).map(number::result_value)),
            words: words::cell(made, of).into(),
        }
    }

    /// Whether its number is the time of a flush that does not wait for the disk. Such a cell is hatched, because
    /// it is fast without doing the work.
    pub fn is_hatched(&self) -> bool {
        self.signs.has(Sign::Unflushed)
    }

    /// The cell as text.
    pub fn text(&self, unit: Unit) -> String {
        match unit {
            Unit::Ratio => self.shown.text(),
            Unit::Time => self.time.clone(),
            Unit::Throughput => self.throughput.clone(),
        }
    }

    /// The size of a decided difference, as |ln ratio|; 0 if it is not decided.
    pub fn size(&self) -> f64 {
        let decided = matches!(self.verdict, Some(Verdict::Slower | Verdict::Faster));
        let ratio = self.ratio.filter(|_| decided);
        ratio.map_or(0.0, |ratio| ratio.ln().abs())
    }
}

/// Shown where nothing came in time: the number would be the wait.
const NOT_SEEN: [&str; 2] = ["not", "seen"];
/// The cell of a lock that the other side took as well.
const TAKEN: &str = "taken";

/// The ratio, or one sign for the verdict. With stalls, a sign follows.
fn signs(row: Option<&ResultRow>) -> (Shown, SignSet) {
    let signs = SignSet::default();
    let alone = |sign: Sign| (Shown::plain(sign.shown()), signs.with(sign));
    let Some(row) = row else {
        return alone(Sign::Missing);
    };
    if is_open(row) {
        return (Shown::plain(TAKEN), signs);
    }
    if row.not_seen() {
        let [number, words] = NOT_SEEN.map(str::to_owned);
        return (Shown { number, words }, signs);
    }
    let written = number::Written::in_row(row);
    // Without a steady state, a direction may be known but no number.
    let (ratio, inverse) = match written {
        Some(written) => (of_ratio(written), written.is_inverse()),
        None => (Shown::plain(row.leaning().word()), false),
    };
    let with_ratio = if inverse {
        signs.with(Sign::Faster)
    } else {
        signs
    };
    let (shown, signs) = match row.verdict {
        Verdict::Same => alone(Sign::Same),
        Verdict::Slower | Verdict::Faster => (ratio, with_ratio),
        Verdict::Undecided if row.withheld.is_some() => alone(Sign::Waits),
        Verdict::Undecided if row.probably.is_some() => {
            let sign = Sign::Probably;
            (ratio.before(sign.shown()), with_ratio.with(sign))
        }
        // The estimate, although it is not known on which side of 1 the ratio is.
        Verdict::Undecided => match written.map(|written| (written, written.noise())) {
            None => alone(Sign::Drifts),
            Some((written, Some(_))) if written.is_wild() => alone(Sign::Wild),
            Some((written, Some(noise))) => (noisy(written, &noise), with_ratio.with(Sign::Noisy)),
            Some((_, None)) => {
                let sign = Sign::Open;
                (ratio.before(sign.shown()), with_ratio.with(sign))
            }
        },
        Verdict::Untrusted => alone(Sign::Untrusted),
        Verdict::Descriptive | Verdict::Baseline => {
            (ratio.before("(").after(")"), with_ratio.with(Sign::Unasked))
        }
    };
    let (shown, signs) = match stalls::sign(row) {
        "" => (shown, signs),
        sign => (shown.after(sign), signs.with(Sign::Stalls)),
    };
    if !row.durability.skips() {
        return (shown, signs);
    }
    let sign = Sign::Unflushed;
    (shown.before(sign.shown()), signs.with(sign))
}

fn of_ratio(written: number::Written) -> Shown {
    Shown {
        number: written.multiple(),
        words: written.word().into(),
    }
}

/// An estimate and the half-width of its interval.
fn noisy(written: number::Written, noise: &str) -> Shown {
    Shown {
        number: written.estimate(),
        words: words::noise(written.word(), noise),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Estimate;

    fn undecided(interval: Option<[f64; 2]>) -> ResultRow {
        ResultRow {
            trials: 1,
            verdict: Verdict::Undecided,
            ratio: Some(Estimate {
                estimate: 0.97,
                interval,
                average: None,
            }),
            ..ResultRow::default()
        }
    }

    fn shown(row: &ResultRow) -> (String, Vec<Sign>) {
        let cell = MatrixCell::new(Some(row), "native");
        let signs = Sign::ALL.into_iter().filter(|s| cell.signs.has(*s));
        (cell.text(Unit::Ratio), signs.collect())
    }

    /// Too noisy, too few blocks, no steady state: never a bare `?`.
    #[test]
    fn what_is_not_decided_says_why() {
        let few = undecided(None);
        assert_eq!(shown(&few), ("?0.97x".into(), vec![Sign::Open]));
        let more = ResultRow {
            more_blocks: Some(2),
            ..few.clone()
        };
        assert_eq!(shown(&more), ("?0.97x".into(), vec![Sign::Open]));
        let wide = undecided(Some([0.925, 1.016]));
        assert_eq!(shown(&wide), ("0.97 \u{b1}5%".into(), vec![Sign::Noisy]));
        assert_eq!(MatrixCell::new(Some(&wide), "native").noise, "5%");
        let drifting = ResultRow { ratio: None, ..few };
        assert_eq!(shown(&drifting), ("?drift".into(), vec![Sign::Drifts]));
        let waits = ResultRow {
            withheld: Some("it waited".into()),
            ..wide
        };
        assert_eq!(shown(&waits), ("?cpu".into(), vec![Sign::Waits]));
    }

    #[test]
    fn a_cell_without_a_result_is_missing_in_every_unit() {
        let cell = MatrixCell::new(None, "native");
        for unit in [Unit::Ratio, Unit::Time, Unit::Throughput] {
            assert_eq!(cell.text(unit), "-");
        }
        assert_eq!((cell.result, cell.shade), (None, None));
        assert!(cell.signs.has(Sign::Missing) && cell.words == "not measured");
    }

    #[test]
    fn signs_stand_around_both_parts() {
        let fast = ResultRow {
            verdict: Verdict::Descriptive,
            ..undecided(Some([0.32, 0.34]))
        };
        let fast = ResultRow {
            ratio: fast.ratio.map(|r| Estimate {
                estimate: 0.33,
                ..r
            }),
            ..fast
        };
        let (text, signs) = shown(&fast);
        assert_eq!(text, "(3.0x faster)");
        assert_eq!(signs, [Sign::Faster, Sign::Unasked]);
        let slow = ResultRow {
            verdict: Verdict::Undecided,
            probably: Some(Verdict::Slower),
            flag_counts: [(layermark_model::flags::STALLS.to_owned(), 1)].into(),
            ..undecided(Some([1.1, 2.9]))
        };
        let slow = ResultRow {
            ratio: slow.ratio.map(|r| Estimate { estimate: 1.8, ..r }),
            ..slow
        };
        let (text, signs) = shown(&slow);
        assert_eq!(text, "~1.8x^");
        assert_eq!(signs, [Sign::Probably, Sign::Stalls]);
    }
}
