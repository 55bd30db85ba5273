//! What an operation and a byte cost.

use layermark_model::format_size;

use crate::{
    number,
    statements::cost::{AddedCost, CostModel, OperationCost},
    types::Estimate,
    words::{Names, Text, Words, text},
};

impl Words for CostModel<'_> {
    fn words(&self, names: &Names) -> Text {
        let (row, cost) = (self.row, self.cost.words(names));
        let limit = row.ceiling.filter(|_| row.fits).map(|most| {
            let most = number::value(most, "B/s");
            text!("; never above {most}, whatever the record")
        });
        text!(
            "{}, {}: {cost}{}",
            Text::code(&row.layer),
            row.label,
            limit.unwrap_or_default()
        )
    }
}

impl Words for OperationCost {
    fn words(&self, names: &Names) -> Text {
        match self {
            Self::NoModel { record, off } => text!(
                "no such model: records of {} lie {} off the best line",
                format_size(*record),
                number::percent(*off)
            ),
            Self::Whole(fixed, bytes) => text!(
                "{} an operation and {} a byte",
                number::time_with(fixed),
                per_byte(bytes)
            ),
            Self::More(parts) => Text::joined(parts.iter().map(|p| p.words(names)), ", and "),
            Self::Nothing { with_interval } => {
                let known = if *with_interval {
                    ""
                } else {
                    " (too few repeats for an interval)"
                };
                let baseline = names.baseline();
                text!("no cost beside {baseline}'s that can be told from chance{known}")
            }
        }
    }
}

impl Words for AddedCost {
    fn words(&self, _: &Names) -> Text {
        match self {
            Self::Constant(us) => text!(
                "a constant {} more an operation: no record size helps, larger ones only spread it over more bytes",
                number::time_with(us)
            ),
            Self::PerByte(ns) => text!("{} more a byte", per_byte(ns)),
            Self::LessConstant(us) => text!("{} an operation", number::time_with(us)),
            Self::LessPerByte(ns) => text!("{} a byte", per_byte(ns)),
        }
    }
}

/// Nanoseconds per byte: `0.31 ns (0.28 to 0.33 ns)`.
pub fn per_byte(ns: &Estimate) -> String {
    let ends = ns.interval.map(|i| i.map(|v| v / 1e3));
    number::time_with(&Estimate::new(ns.estimate / 1e3, ends))
}

/// How the models were fitted: the level of their intervals, and from which deviation on there is none.
pub fn about_models(level: f64, off: f64) -> Text {
    text!(
        "A line through the record sizes, in a robust fit that one outlying size moves little; {} intervals by resampling repeats. Where a size lies more than {} off, there is no such model.",
        number::percent(level),
        number::percent(off)
    )
}

/// The head of a column of what a layer adds.
pub fn more_than(baseline: &str) -> Text {
    text!("more than {baseline}, an operation")
}

/// The limit of a model, bytes per second.
pub fn at_most(rate: f64) -> Text {
    text!("at most {}", number::value(rate, "B/s"))
}

/// That a line does not fit: how far a record size lies off.
pub fn no_model(off: f64, record: u64) -> Text {
    let (off, record) = (number::percent(off), format_size(record));
    text!("no such model: {off} off at {record}")
}
