//! A result as a line of a table: its numbers and labels.

use layermark_model::flags;

use crate::{
    facts::numbers::{Numbers, numbers, typical},
    number::{self, count},
    types::{ResultRow, ServedBy},
    words::{Text, studies::layer_head, text},
};

/// Name of a result's second line.
pub const ON_AVERAGE: &str = "on average";
/// Heading of the column of [`Numbers::baseline`].
pub const BASELINE: &str = "baseline's";
/// Heading of the column of [`source`].
pub const SOURCE: &str = "data came from, fsync";

impl Numbers {
    /// Empty for the typical operation, [`ON_AVERAGE`] for the average.
    pub fn of(&self) -> &'static str {
        if self.is_average { ON_AVERAGE } else { "" }
    }

    /// Time per operation. Beside the baseline's time it has three digits: their ratio is known better
    /// than either.
    pub fn time(&self) -> String {
        let Some(time) = self.time else {
            return String::new();
        };
        match self.baseline_us {
            _ if self.at_least => format!(">{}", number::time(time.estimate)),
            Some(_) => number::time(time.estimate),
            None => number::time_of(&time),
        }
    }

    /// The baseline's time per operation in the same rounds.
    pub fn baseline(&self) -> String {
        self.baseline_us.map(number::time).unwrap_or_default()
    }

    /// The ratio with its interval, `1.02 [0.99-1.05]`, or with what is missing for one.
    pub fn ratio(&self) -> String {
        let Some(written) = self.written() else {
            return String::new();
        };
        if self.at_least {
            return format!(">{}", written.ratio());
        }
        let ends = written.ends().map(|ends| ends.join("-"));
        let ends = ends.unwrap_or_else(|| "no interval".into());
        format!("{} [{ends}]", written.ratio())
    }

    /// How the ratio is written.
    pub fn written(&self) -> Option<number::Written> {
        let ratio = self.ratio.as_ref()?;
        Some(number::Written::beside(self.verdict, ratio))
    }

    /// `+12.0 us`: the absolute difference next to the ratio.
    pub fn extra(&self) -> String {
        let Some(extra) = self.extra.filter(|_| !self.at_least) else {
            return String::new();
        };
        match self.time.filter(|_| self.baseline_us.is_some()) {
            Some(time) => number::extra_beside(&extra, time.estimate),
            None => number::extra_of(&extra),
        }
    }

    /// Its parts that are known, each with its words: `ratio 1.02 [0.99-1.05]`.
    pub fn parts(&self) -> Vec<Text> {
        let ratio = self.written().map(|_| self.ratio());
        let ratio = ratio.map(|ratio| text!("ratio {ratio}"));
        let ratio = match self.of() {
            "" => ratio,
            of => Some(text!("{of}: {}", ratio.unwrap_or_default())),
        };
        let extra = Some(self.extra()).filter(|extra| !extra.is_empty());
        let time = self.time.map(|_| text!("{} an operation", self.time()));
        let time = match self.baseline_us {
            None => time,
            Some(_) => Some(text!(
                "{} beside the baseline's {}",
                time.unwrap_or_default(),
                self.baseline()
            )),
        };
        let parts = [ratio, extra.map(Text::from), time];
        parts.into_iter().flatten().collect()
    }
}

/// Where the data of a read came from, or the result of an fsync.
pub fn source(row: &ResultRow) -> String {
    let source = row.served_by.map_or("", ServedBy::word);
    let mut parts = vec![source.to_owned(), row.durability.words()];
    parts.retain(|p| !p.is_empty());
    parts.join(", ")
}

/// The layer's name, with a mark if its instructions were emulated: its figures say nothing about
/// other machines.
pub fn layer(row: &ResultRow) -> String {
    let is_emulated = row.flags.iter().any(|f| f == flags::EMULATED_CPU);
    layer_head(&row.layer, is_emulated).into()
}

/// All numbers of a result, and where its data came from; may be empty.
pub fn found(row: &ResultRow) -> Text {
    let numbers = numbers(row);
    let numbers = numbers.iter().flat_map(Numbers::parts);
    let source = Some(source(row)).filter(|source| !source.is_empty());
    Text::joined(numbers.chain(source.map(Text::from)), ", ")
}

/// The verdict in a word, with the notes on it if there are any.
pub fn with_notes(word: &str, notes: Text) -> Text {
    let notes = Some(notes).filter(|notes| notes.length() > 0);
    Text::joined([Some(word.into()), notes].into_iter().flatten(), ": ")
}

/// The ratio of a result and its verdict in a word.
pub fn ratio_and_word(row: &ResultRow) -> Text {
    text!("{}: {}", typical(row).ratio(), row.word())
}

/// In how many of all trials, and of all results, other programs disturbed the work.
pub fn disturbed([trials, of_trials]: [usize; 2], [rows, results]: [usize; 2]) -> Text {
    text!(
        "{}: {trials} of {}, in {rows} of {}; not repeated in each row.",
        flags::CONTAMINATED,
        count(of_trials, "measurement"),
        count(results, "result")
    )
}

/// How many of all trials have this remark.
pub fn flag(flag: &str, some: usize, trials: usize) -> Text {
    text!("{flag}: {some} of {}", count(trials, "measurement"))
}

/// Microseconds as seconds, for programs.
pub fn seconds(us: f64) -> String {
    format!("{:.9}", us / 1e6)
}

/// A command and the layer in which it was launched.
pub fn command_in(command: &str, layer: &str) -> Text {
    text!("{command} ({layer})")
}

/// `rand-read, 4K in overlay:upper`
pub fn place(label: &str, layer: &str) -> Text {
    text!("{label} in {layer}")
}
